"""Parses and applies ignore rules, which decide which files a snapshot leaves out.

`.windlassignore` files contain gitignore patterns, may be in any folder, and take precedence over
`.gitignore` files. A plain line ignores more paths, and a `!` line includes a path that
`.gitignore` ignores.

A folder that `.gitignore` ignores as a whole is searched only if a `!` line with a `/` names a path
in it, such as `!data/small.csv` or `!/data/`. A line such as `!*.csv` does not cause a search of
ignored folders. The paths in `ALWAYS_IGNORED` cannot be included.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# The folder in a snapshot for code that is not part of the project. Downloaded snapshots contain
# it.
RECORDED = ".windlass-code"
ALWAYS_IGNORED = frozenset(
    (
        RECORDED, ".git", "__pycache__", "node_modules", ".mypy_cache", ".ruff_cache",
        ".pytest_cache", ".hypothesis", ".ipynb_checkpoints", ".DS_Store",
    )
)  # fmt: skip
ALWAYS_IGNORED_ENDINGS = (".pyc", ".egg-info")


class Rule(NamedTuple):
    """One line of an ignore file."""

    expression: str
    is_negated: bool
    folders_only: bool
    is_anchored: bool  # True to match the path, False to match only the name
    beginning: tuple[str, ...]  # the pattern's folders before its first wildcard


class _Test(NamedTuple):
    matches: re.Pattern[str]
    answer: bool
    folders_only: bool
    is_anchored: bool


class Patterns:
    """The rules in one ignore file. Paths are relative to the file's folder.

    >>> patterns = Patterns("*.csv\\n!keep.csv\\n/build/\\n")
    >>> [patterns.verdict(path, False) for path in ("a/b.csv", "a/keep.csv", "a.py")]
    [True, False, None]
    >>> patterns.verdict("build", True), patterns.verdict("a/build", True)
    (True, None)
    """

    def __init__(self, text: str) -> None:
        rules = parse_rules(text)
        self.reaching = [rule.beginning for rule in rules if rule.is_negated and rule.is_anchored]
        self._tests = _merged(rules)

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the rules ignore a path, or None if no rule matches.

        If several rules match, the last one decides.
        """
        name = path[path.rfind("/") + 1 :]
        for test in self._tests:
            if test.folders_only and not is_folder:
                continue
            if test.matches.fullmatch(path if test.is_anchored else name):
                return test.answer
        return None

    def reaches_into(self, folder: str) -> bool:
        """Return True if a `!` line might include a path inside an ignored folder."""
        parts = tuple(folder.split("/"))
        return any(
            parts[: len(beginning)] == beginning[: len(parts)] for beginning in self.reaching
        )


def parse_rules(text: str) -> list[Rule]:
    r"""Parse an ignore file's text into rules, in the order of the file.

    >>> [rule.is_negated for rule in parse_rules("# comment\n\n*.log\n!keep.log\n")]
    [False, True]
    """
    lines = text.removeprefix("\ufeff").split("\n")
    return [rule for line in lines if (rule := _parse_rule(line)) is not None]


def quote_path(path: str) -> str:
    r"""Convert a path to an ignore-file line that matches only this path.

    >>> quote_path("data [old]/a*b ")
    '/data \\[old]/a\\*b\\ '
    """
    quoted = re.sub(r"([\\*?\[])", r"\\\1", path)
    if quoted.endswith(" "):
        quoted = quoted[:-1] + "\\ "
    return "/" + quoted


def _parse_rule(line: str) -> Rule | None:
    line = line.removesuffix("\r")
    if line.startswith("#"):
        return None
    line = _without_trailing_spaces(line)
    is_negated = line.startswith("!")
    if is_negated:
        line = line[1:]
    folders_only = line.endswith("/")
    if folders_only:
        line = line[:-1]
    if not line:
        return None
    is_anchored = "/" in line
    if is_anchored:
        line = line.removeprefix("/")
    expression = _expression(line)
    if expression is None:
        return None
    return Rule(expression, is_negated, folders_only, is_anchored, _beginning(line))


def _without_trailing_spaces(line: str) -> str:
    kept = line.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and len(kept) < len(line) else kept


def _beginning(pattern: str) -> tuple[str, ...]:
    parts: list[str] = []
    for part in pattern.split("/"):
        if re.search(r"[*?\[\\]", part):
            break
        parts.append(part)
    return tuple(parts)


def _merged(rules: Sequence[Rule]) -> list[_Test]:
    """Convert rules to tests, in reverse order.

    Adjacent rules of the same kind become one test, because one large regular expression is faster.
    """
    tests: list[_Test] = []
    run: list[Rule] = []
    for rule in [*reversed(rules), None]:
        if run and (rule is None or rule[1:4] != run[0][1:4]):
            joined = "|".join(rule.expression for rule in run)
            first = run[0]
            tests.append(
                _Test(
                    re.compile(joined, re.DOTALL),
                    not first.is_negated,
                    first.folders_only,
                    first.is_anchored,
                )
            )
            run = []
        if rule is not None:
            run.append(rule)
    return tests


_CLASSES = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "\\x21-\\x7e", "lower": "a-z", "print": "\\x20-\\x7e",
    "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v", "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


def _expression(pattern: str) -> str | None:
    """Convert a wildcard pattern to a regular expression, or return None if it can never match."""
    out: list[str] = []
    i, end = 0, len(pattern)
    while i < end:
        char = pattern[i]
        if char == "\\":
            if i + 1 == end:
                return None
            out.append(re.escape(pattern[i + 1]))
            i += 2
        elif char == "?":
            out.append("[^/]")
            i += 1
        elif char == "*":
            stop = i
            while stop < end and pattern[stop] == "*":
                stop += 1
            at_start = i == 0 or pattern[i - 1] == "/"
            if stop - i >= 2 and at_start and stop == end:
                out.append(".*" if i == 0 else ".+")
                i = stop
            elif stop - i >= 2 and at_start and pattern[stop] == "/":
                out.append("(?:.*/)?")
                i = stop + 1
            else:
                out.append("[^/]*")
                i = stop
        elif char == "[":
            bracket = _bracket(pattern, i)
            if bracket is None:
                return None
            expression, i = bracket
            out.append(expression)
        else:
            out.append(re.escape(char))
            i += 1
    return "".join(out)


def _bracket(pattern: str, start: int) -> tuple[str, int] | None:
    """Convert a bracket expression such as `[a-z]` to a regular expression.

    `start` is its position in the pattern. Return the regular expression and the position after the
    bracket, or None if the bracket is not closed.
    """
    i = start + 1
    is_negated = pattern[i : i + 1] in ("!", "^")
    if is_negated:
        i += 1
    items: list[str] = []
    first = True
    while i < len(pattern):
        char = pattern[i]
        if char == "]" and not first:
            body = "".join(items)
            if is_negated:
                return f"[^/{body}]", i + 1
            return (f"(?!/)[{body}]" if body else "(?!)"), i + 1
        first = False
        if pattern.startswith("[:", i):
            close = pattern.find(":]", i)
            if close < 0 or pattern[i + 2 : close] not in _CLASSES:
                return None
            items.append(_CLASSES[pattern[i + 2 : close]])
            i = close + 2
            continue
        low, i = _class_character(pattern, i)
        if low is None:
            return None
        if pattern.startswith("-", i) and i + 1 < len(pattern) and pattern[i + 1] != "]":
            high, i = _class_character(pattern, i + 1)
            if high is None:
                return None
            if low <= high:
                items.append(f"{_class_escape(low)}-{_class_escape(high)}")
        else:
            items.append(_class_escape(low))
    return None


def _class_character(pattern: str, i: int) -> tuple[str | None, int]:
    if pattern[i] != "\\":
        return pattern[i], i + 1
    if i + 1 < len(pattern):
        return pattern[i + 1], i + 2
    return None, i + 1


def _class_escape(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


def any_reaches_into(scopes: Iterable[tuple[int, Patterns]], folder: str) -> bool:
    """Return True if a `!` line in any ignore file may include a path inside the folder."""
    return any(patterns.reaches_into(folder[skip:]) for skip, patterns in scopes)


def find_verdict(scopes: Sequence[tuple[int, Patterns]], path: str, is_folder: bool) -> bool | None:
    """Return whether ignore files ignore a path, or None if no rule matches.

    If several files match, the one in the deepest folder decides. Each scope contains the patterns
    of one file, and the number of characters to cut off the start of a path, so that the path is
    relative to the file's folder.
    """
    for skip, patterns in reversed(scopes):
        answer = patterns.verdict(path[skip:], is_folder)
        if answer is not None:
            return answer
    return None

"""Count phrases that break the prose rules, and fail above a small limit.

    python tools/check_prose.py [--list] [PATH ...]

The tool reads docstrings, comments and messages (all other strings of three words or more) of
Python files, and the text of Markdown files outside of code blocks. It looks for habits that make
prose hard to read:

1. A docstring that starts with a question word ("What it reads", "Whoever waits"), and any other
   sentence that starts with "What", "Who" or "Of" and is no question.
2. A relative clause in the place of a noun ("from what is given", "whoever asks").
3. Data that is "told", "said" or "heard of", and "X is no number" in place of "is not a number".

The limit allows for the few phrases that read well. It holds for each path by itself, so that a
large folder does not hide a bad one. `--list` prints each phrase that matches.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PATHS = (
    "src",
    "benchmarks",
    "examples",
    "tests",
    "docs",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
LIMIT_PER_1000_WORDS = 0.2
_FEWEST_WORDS = 5_000  # a single phrase in a short file is no habit

_QUESTION_START = re.compile(r"\s*(?:What|Who|Whose|Whoever|Which|Where|How|Of|That)\b")
_INTRODUCES_A_QUESTION = (
    "asks?|checks?|decides?|defines?|describes?|determines?|explains?|finds?|is|knows?|lists?|"
    "matters?|reports?|return|sees?|shows?|states?|and|say|says"
)
_OLD_STYLE = re.compile(
    r"(?:^|[.:]\s+)(?-i:What|Who|Whom|Whose|Of)\s(?!\d)(?:(?!`|\.\s)[^?\n])*[.:](?:\s|$)"
    r"|\bwho(?:m)?ever\b"
    r"|\b(?!(?:" + _INTRODUCES_A_QUESTION + r")\s)\w+\swhat\s"
    r"(?:is|was|are|were|it|they|one|has|had|came|comes|runs|ran)\b"
    r"|(?:[.;:,(]\s|\b(?:of|from|to|for|in|with|by|and|or|than|as|on|at|about)\s)"
    r"what\s(?:is|was|are|were|it|they|one|has|had|can|could|must|may|of|came|comes|runs|ran)\b(?![^.\n]*\?)"
    r"|\b(?:is|are|was|were|be|been|being)\s(?:told|said|heard)\b"
    r"|(?<!there\s)\b(?:is|are|was)\sno\s(?!longer\b|more\b|less\b|later\b|earlier\b)"
    r"|\bmend(?:s|ed|ing)?\b",
    re.IGNORECASE,
)
_HAS_OLD_STYLE = re.compile(
    r"what|whomever|whoever|told|said|heard|\bno\s|mend|(?:^|[.:]\s+)(?:Who|Of)", re.IGNORECASE
)
_COMMENT = re.compile(r"#+ ?(?!!|type:|fmt:|noqa|pragma)")
_THREE_WORDS = re.compile(r"[A-Za-z]+[,:;.]?\s+\S+\s+\S")
_CONTEXT = 60  # characters printed on both sides of a phrase


@dataclass(frozen=True)
class Prose:
    """A docstring, a comment, a message or a paragraph, and its position."""

    path: Path
    number: int
    text: str
    is_docstring: bool = False


@dataclass(frozen=True)
class Match:
    """A phrase that breaks a rule."""

    path: Path
    number: int
    context: str


@dataclass(frozen=True)
class Result:
    """The phrases of a file or folder that break a rule."""

    path: Path
    words: int
    matches: list[Match]

    @property
    def rate(self) -> float:
        """The number of phrases per 1,000 words."""
        return 1000 * len(self.matches) / max(self.words, 1)

    @property
    def is_above_limit(self) -> bool:
        limit = max(self.words, _FEWEST_WORDS) * LIMIT_PER_1000_WORDS / 1000
        return len(self.matches) > limit


def main() -> int:
    parser = argparse.ArgumentParser(description="Count phrases that break the prose rules.")
    parser.add_argument("paths", nargs="*", default=DEFAULT_PATHS, metavar="PATH")
    parser.add_argument("--list", action="store_true", help="print each phrase that matches")
    options = parser.parse_args()
    results = [check(Path(name)) for name in options.paths]
    for result in results:
        if options.list or result.is_above_limit:
            for match in sorted(result.matches, key=lambda match: (match.path, match.number)):
                print(f"{match.path}:{match.number}: {match.context}")
    print("Phrases per 1,000 words that break the prose rules:", end=" ")
    print(*(f"{result.path} {result.rate:.2f}" for result in results), sep=", ", end=". ")
    print(f"The limit is {LIMIT_PER_1000_WORDS}.")
    if any(result.is_above_limit for result in results):
        print(f"{__file__} explains the rules.")
        return 1
    return 0


def check(path: Path) -> Result:
    """Count the phrases of a file or folder."""
    words, matches = 0, list[Match]()
    for prose in read_prose(path):
        words += len(prose.text.split())
        matches += find_matches(prose)
    return Result(path, words, matches)


def find_matches(prose: Prose) -> Iterator[Match]:
    """Find the phrases of a text that break a rule.

    >>> [match.context for match in find_matches(Prose(Path("a.py"), 1, "'x' is no number"))]
    ["'x' is no number"]
    """
    if prose.is_docstring and (start := _QUESTION_START.match(prose.text)):
        yield _match(prose, start)
    elif _HAS_OLD_STYLE.search(prose.text):
        for phrase in _OLD_STYLE.finditer(prose.text):
            yield _match(prose, phrase)


def read_prose(path: Path) -> Iterator[Prose]:
    """Read the prose of a file, or of all Python and Markdown files of a folder."""
    if path.is_dir():
        for file in sorted([*path.rglob("*.py"), *path.rglob("*.md")]):
            yield from read_prose(file)
    elif path.suffix == ".md":
        yield from _paragraphs(path)
    else:
        yield from _python(path)


def _match(prose: Prose, phrase: re.Match[str]) -> Match:
    start, end = max(phrase.start() - _CONTEXT, 0), phrase.end() + _CONTEXT
    number = prose.number + prose.text.count("\n", 0, phrase.start())
    return Match(prose.path, number, " ".join(prose.text[start:end].split()))


def _paragraphs(path: Path) -> Iterator[Prose]:
    in_code = False
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield Prose(path, number, text)


def _python(path: Path) -> Iterator[Prose]:
    source = path.read_text()
    spans: list[tuple[int, int, int, int]] = []  # of strings: a "#" in them starts no comment
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            if isinstance(text := node.value.value, str):
                spans.append(_span(node.value))
                yield Prose(path, node.lineno, text, is_docstring=True)
        elif isinstance(node, ast.JoinedStr):
            spans.append(_span(node))
            yield from _message(path, node.lineno, _with_placeholders(node))
            nodes.extend(part.value for part in node.values if isinstance(part, ast.FormattedValue))
        elif isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes):
                spans.append(_span(node))
            if isinstance(node.value, str):
                yield from _message(path, node.lineno, node.value)
        else:
            nodes.extend(ast.iter_child_nodes(node))
    yield from _comments(path, source, spans)


def _span(node: ast.expr) -> tuple[int, int, int, int]:
    return node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0


def _with_placeholders(string: ast.JoinedStr) -> str:
    """Return the text of an f-string, with "…" in the place of each value."""
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else "…" for part in string.values
    )


def _message(path: Path, number: int, text: str) -> Iterator[Prose]:
    if _THREE_WORDS.search(text):
        yield Prose(path, number, text)


def _comments(
    path: Path, source: str, spans: Iterable[tuple[int, int, int, int]]
) -> Iterator[Prose]:
    """Read comments; comments on successive lines are one text."""
    spans_by_line: dict[int, list[tuple[int, int]]] = {}
    for first, start, last, end in spans:
        for number in range(first, last + 1):
            here = (start if number == first else 0, end if number == last else sys.maxsize)
            spans_by_line.setdefault(number, []).append(here)
    first_number, texts = 0, list[str]()
    for number, line in enumerate(source.encode().split(b"\n"), 1):
        comment = _comment_of(line, spans_by_line.get(number, ())) if b"#" in line else None
        if texts and number != first_number + len(texts):
            yield Prose(path, first_number, "\n".join(texts))
            texts = []
        if comment is not None:
            first_number = first_number if texts else number
            texts.append(comment)
    if texts:
        yield Prose(path, first_number, "\n".join(texts))


def _comment_of(line: bytes, strings: Iterable[tuple[int, int]]) -> str | None:
    position = line.find(b"#")
    while position >= 0:
        if not any(start <= position < end for start, end in strings):
            text = line[position:].decode()
            prefix = _COMMENT.match(text)
            return text[prefix.end() :] if prefix else None
        position = line.find(b"#", position + 1)
    return None


if __name__ == "__main__":
    sys.exit(main())

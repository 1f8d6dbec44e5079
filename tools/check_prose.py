"""Count sentences that break the prose rules, and fail above a small limit.

    python tools/check_prose.py [--list] [PATH ...]

The tool reads docstrings, comments and error messages of Python files, and the text of Markdown
files outside of code blocks. It looks for three habits that make prose hard to read:

1. A docstring that starts with a question word ("What it reads", "Whoever waits").
2. A relative clause in the place of a noun ("from what is given", "whoever asks").
3. Data that is "told", "said" or "heard of", and "X is no number" in place of "is not a number".

`--list` prints each sentence that matches. The limit allows for the few that read well.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DEFAULT_PATHS = ("src", "docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
LIMIT_PER_1000_WORDS = 1.0

_QUESTION_START = re.compile(r"(?:What|Who|Whose|Whoever|Which|Where|How|Of|That)\b")
_OLD_STYLE = re.compile(
    r"\bwho(?:m)?ever\b"
    r"|(?:[.;:,(] |\b(?:of|from|to|for|in|with|by|and|or|than|as|on|at|about) )"
    r"what (?:is|was|are|were|it|they|one|has|had|can|could|must|may|of|came|comes|runs|ran)\b"
    r"|\b(?:is|are|was|were|be|been|being) (?:told|said|heard)\b"
    r"|(?<!there )\b(?:is|are|was) no (?!longer\b|more\b|less\b|later\b|earlier\b)",
    re.IGNORECASE,
)
_IGNORED_COMMENT = re.compile(r"#\s*(?:!|type:|fmt:|noqa|pragma)")


@dataclass(frozen=True)
class Line:
    """A line of prose and its position."""

    path: Path
    number: int
    text: str
    starts_docstring: bool = False

    @property
    def breaks_a_rule(self) -> bool:
        if self.starts_docstring and _QUESTION_START.match(self.text):
            return True
        return _OLD_STYLE.search(self.text) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description="Count sentences that break the prose rules.")
    parser.add_argument("paths", nargs="*", default=DEFAULT_PATHS, metavar="PATH")
    parser.add_argument("--list", action="store_true", help="print each sentence that matches")
    options = parser.parse_args()
    lines = [line for name in options.paths for line in read_prose(Path(name))]
    matches = [line for line in lines if line.breaks_a_rule]
    words = sum(len(line.text.split()) for line in lines)
    rate = 1000 * len(matches) / max(words, 1)
    is_above = rate > LIMIT_PER_1000_WORDS
    if options.list or is_above:
        for line in matches:
            print(f"{line.path}:{line.number}: {line.text}")
        print(
            f"{len(matches)} lines in {words} words break the prose rules: {rate:.2f} per 1,000 "
            f"words. The limit is {LIMIT_PER_1000_WORDS}. {__file__} explains the rules."
        )
    return 1 if is_above else 0


def read_prose(path: Path) -> Iterator[Line]:
    """Read the prose of a file, or of all Python and Markdown files of a folder."""
    if path.is_dir():
        for file in sorted([*path.rglob("*.py"), *path.rglob("*.md")]):
            yield from read_prose(file)
    elif path.suffix == ".md":
        yield from _markdown(path)
    else:
        yield from _python(path)


def _markdown(path: Path) -> Iterator[Line]:
    in_code = False
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if text.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code:
            yield Line(path, number, text)


def _python(path: Path) -> Iterator[Line]:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(path, node)
        elif isinstance(node, ast.Raise) and node.exc is not None:
            yield from _message(path, node.exc)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not _IGNORED_COMMENT.match(token.string):
            yield Line(path, token.start[0], token.string.lstrip("# "))


def _docstrings(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Line]:
    """Read the docstring of a definition and those below the fields of a class."""
    for statement in node.body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            value = statement.value.value
            if isinstance(value, str):
                for offset, text in enumerate(value.splitlines()):
                    number = statement.lineno + offset
                    yield Line(path, number, text.strip(), starts_docstring=offset == 0)


def _message(path: Path, error: ast.expr) -> Iterator[Line]:
    for node in ast.walk(error):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Line(path, node.lineno, node.value)


if __name__ == "__main__":
    sys.exit(main())

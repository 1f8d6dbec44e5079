"""Finds the definition of a function or class in the code that Python keeps for tracebacks.

This code includes notebook cells and, on newer Python versions, the lines of an interactive
session.
"""

from __future__ import annotations

import ast
import io
import linecache
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, NamedTuple

_LARGEST = 1_000_000  # characters; larger sources are not searched
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_FILE_OF_CODE = re.compile(r'(<code object [^>]*?), file ".*?", line \d+')
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Definition(NamedTuple):
    """A definition's lines, as Python reads them, without their common indentation."""

    file: str
    line: int
    block: str
    text: str


class DefinitionSearch:
    """The sources of functions: notebook cells, stdin, or files outside the project."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[Sequence[str], Sequence[ast.stmt]] | None] = {}

    def find(self, value: Any, codes: Sequence[CodeType]) -> Definition | None:
        """Return a function's or class's source, or None if it is unknown."""
        if isinstance(value, FunctionType):
            code = value.__code__
            return self._find(code.co_filename, _function_test(code))
        for file in dict.fromkeys(code.co_filename for code in codes):
            source = self._find(file, _class_test(value))
            if source is not None:
                return source
        return self._search_cells(value)

    def _search_cells(self, value: Any) -> Definition | None:
        """Find a class without methods in the notebook's cells.

        If several cells define it, use the newest.
        """
        for file in reversed(list(linecache.cache)):
            if not os.path.exists(file):
                source = self._find(file, _class_test(value))
                if source is not None:
                    return source
        return None

    def _find(self, file: str, test: Callable[[ast.AST, str], bool]) -> Definition | None:
        if file not in self._parsed:
            self._parsed[file] = _parse(file)
        parsed = self._parsed[file]
        if parsed is None:
            return None
        lines, statements = parsed
        for node in _matching(statements, test):
            first, last = _range(node)
            block = "".join(lines[first - 1 : last])
            text = textwrap.dedent(block)
            return Definition(file, first, block, text)
        return None


def _parse(file: str) -> tuple[Sequence[str], Sequence[ast.stmt]] | None:
    lines = linecache.getlines(file) or _program_lines(file)
    if not lines or sum(map(len, lines)) > _LARGEST:
        return None
    try:
        return lines, ast.parse("".join(lines)).body
    except (SyntaxError, ValueError, RecursionError):
        return None


def _program_lines(file: str) -> list[str]:
    """Return the lines of a program without a file, from `python -c` or a redirected stdin.

    Return [] if Python did not keep the program.
    """
    if file == "<string>":
        words = sys.orig_argv[1:]
        before = next((i for i, word in enumerate(words) if word.endswith("c")), len(words))
        text = words[before + 1] if before + 1 < len(words) else ""
        return text.splitlines(keepends=True)
    if file != "<stdin>" or sys.argv[:1] not in (["-"], [""]):
        return []
    try:
        if not os.path.isfile("/dev/stdin"):  # a pipe or terminal cannot be read again
            return []
        text = os.pread(0, _LARGEST + 1, 0).decode()
    except (OSError, UnicodeDecodeError):
        return []
    return io.StringIO(text).readlines()


def _matching(
    statements: Iterable[ast.stmt], test: Callable[[ast.AST, str], bool]
) -> Iterator[ast.AST]:
    """Yield the functions and classes that a test accepts, from the last to the first in the code.

    For a lambda, yield the whole statement that contains it.
    """
    for statement in reversed(list(statements)):
        for node, qualname in _definitions(statement, ""):
            if test(node, qualname):
                yield statement if isinstance(node, ast.Lambda) else node


def _definitions(node: ast.AST, scope: str) -> Iterator[tuple[ast.AST, str]]:
    """Yield the functions, classes and lambdas in a syntax tree, with their qualified names."""
    inner = scope
    if isinstance(node, _NAMED):
        yield node, scope + node.name
        is_class = isinstance(node, ast.ClassDef)
        inner = f"{scope}{node.name}." + ("" if is_class else "<locals>.")
    elif isinstance(node, ast.Lambda):
        yield node, f"{scope}<lambda>"
    for child in ast.iter_child_nodes(node):
        yield from _definitions(child, inner)


def _function_test(code: CodeType) -> Callable[[ast.AST, str], bool]:
    """Return a function that tests whether a definition is that of a function's code object.

    The test compares the name and the first line.
    """

    def is_it(node: ast.AST, qualname: str) -> bool:
        name = qualname.rpartition(".")[2]
        return (
            not isinstance(node, ast.ClassDef)
            and name == code.co_name
            and _range(node)[0] == code.co_firstlineno
        )

    return is_it


def _class_test(value: type) -> Callable[[ast.AST, str], bool]:
    def is_it(node: ast.AST, qualname: str) -> bool:
        return isinstance(node, ast.ClassDef) and qualname == value.__qualname__

    return is_it


def _range(node: Any) -> tuple[int, int]:
    """Return the first and last line of a definition in a syntax tree, including its decorators."""
    lines = [node.lineno, *(part.lineno for part in getattr(node, "decorator_list", ()))]
    return min(lines), node.end_lineno or node.lineno


def bytecode(value: Any, name: str) -> str:
    """Return a function's or class's bytecode, which is the same for the same source."""
    import dis

    text = io.StringIO()
    dis.dis(value, file=text)
    lines = _FILE_OF_CODE.sub(r"\1", _ADDRESS.sub("", text.getvalue()))
    fields: Mapping[str, Any] = {} if isinstance(value, FunctionType) else vars(value)
    constants = [
        f"{key} = {field!r}\n"
        for key, field in fields.items()
        if not key.startswith("__") and isinstance(field, (int, float, str, bool, tuple))
    ]
    return f"# Python did not keep the source of {name}. Its bytecode:\n{''.join(constants)}{lines}"

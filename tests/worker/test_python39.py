"""The worker runs in any image with Python 3.9, which is not at hand here: what that lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import windlass

WORKER = Path(windlass.__file__).parent / "worker"
OLDEST = (3, 9)
TYPES = {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "None"}


def test_the_worker_is_written_for_the_oldest_python_and_makes_no_unions_of_types() -> None:
    offenders = [
        f"{file.name}:{line}"
        for file in sorted(WORKER.rglob("*.py"))
        for line in _unions(ast.parse(file.read_text(), feature_version=OLDEST))
    ]
    assert offenders == []


def test_the_rule_tells_one_from_the_other() -> None:
    text = """
FLAGS = os.O_RDONLY | os.O_CLOEXEC
def read(path: str | None) -> bytes | None: ...
name: str | None = None
if TYPE_CHECKING:
    Entry = tuple[str, int] | None
Entry = tuple[str, int] | tuple[str]
isinstance(1, int | str)
"""
    assert list(_unions(ast.parse(text))) == [7, 8]


def _unions(tree: ast.Module) -> Iterator[int]:
    """Where types are joined when the program runs: annotations are never looked at."""
    for node in _run(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            if any(isinstance(each, ast.Subscript) or ast.unparse(each) in TYPES for each in sides):
                yield node.lineno


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, but for annotations and what is for type checkers alone."""
    yield node
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns") or (is_for_checkers and field == "body"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _run(each)

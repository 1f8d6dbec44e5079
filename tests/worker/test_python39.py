"""The worker runs in any image with Python 3.9. The tests check for features that it lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import windlass

WORKER = Path(windlass.__file__).parent / "worker"
OLDEST = (3, 9)
TYPES = {"str", "int", "float", "bool", "bytes", "list", "dict", "tuple", "set", "None"}


def test_the_worker_has_python_39_syntax_and_no_unions_of_types() -> None:
    offenders = [
        f"{file.name}:{line}"
        for file in sorted(WORKER.rglob("*.py"))
        for line in _unions(ast.parse(file.read_text(), feature_version=OLDEST))
    ]
    assert offenders == []


def test_the_rule_detects_unions() -> None:
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
    """The expressions that join types at run time. Annotations are never evaluated."""
    for node in _run(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = (node.left, node.right)
            if any(isinstance(side, ast.Subscript) or ast.unparse(side) in TYPES for side in sides):
                yield node.lineno


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, except annotations and code for type checkers."""
    yield node
    is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns") or (is_for_checkers and field == "body"):
            continue
        for member in value if isinstance(value, list) else [value]:
            if isinstance(member, ast.AST):
                yield from _run(member)

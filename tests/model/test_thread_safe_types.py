from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import windlass

SOURCE = Path(windlass.__file__).parent
DOCS = "model/thread_safe_types.py"  # says how
READING = re.compile(r"msgspec(\.\w+)*\.(decode|Decoder|convert)")


def test_every_decoded_type_goes_through_learned() -> None:
    """Otherwise two threads that decode a type for the first time crash with SIGSEGV."""
    offenders = [
        f"{file.relative_to(SOURCE)}:{call.lineno}"
        for file in sorted(SOURCE.rglob("*.py"))
        if str(file.relative_to(SOURCE)) != DOCS
        for call in _reads(ast.parse(file.read_text()))
        if not _is_learned(call)
    ]
    assert offenders == []


def test_the_rule_detects_types_without_learned() -> None:
    text = """
msgspec.json.decode(data)
msgspec.json.encode(data).decode("utf-8", "replace")
msgspec.json.decode(data, type=learned(Point))
msgspec.convert(data, learned(Point), strict=False)
msgspec.json.Decoder(learned(Point))
msgspec.json.decode(data, type=Point)
msgspec.convert(data, Point)
msgspec.msgpack.Decoder(list[Point])
"""
    assert [_is_learned(call) for call in _reads(ast.parse(text))] == [True] * 3 + [False] * 3


def _reads(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls of msgspec that decode a value as a type, in their order."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        if READING.fullmatch(ast.unparse(call.func)) and _type_of(call) is not None:
            yield call


def _type_of(call: ast.Call) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "type"), None)
    place = 0 if ast.unparse(call.func).endswith("Decoder") else 1
    return named or (call.args[place] if len(call.args) > place else None)


def _is_learned(call: ast.Call) -> bool:
    kind = _type_of(call)
    return isinstance(kind, ast.Call) and ast.unparse(kind.func) == "learned"

"""docs/explanation/reliability.md names a test for each promise. Each of these tests exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def named() -> set[tuple[str, str]]:
    named_tests = set(NAMED.findall((ROOT / "docs" / "explanation" / "reliability.md").read_text()))
    assert len(named_tests) > 30
    return named_tests


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    names = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    return {name for name in names if name.startswith("test_")}


def test_every_test_of_a_promise_exists() -> None:
    missing = [(file, test) for file, test in named() if test not in functions_of(ROOT / file)]
    assert not missing


def test_every_chaos_file_tests_a_promise() -> None:
    files = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "tests/chaos").rglob("test_*.py")
    }
    assert files <= {file for file, _ in named()}

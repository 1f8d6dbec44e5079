"""The examples in docstrings run and print what they show."""

from __future__ import annotations

import doctest
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = {"src": ROOT / "src" / "windlass", "tests": ROOT / "tests", ".": ROOT / "benchmarks"}


def modules_with_examples() -> list[str]:
    """Dotted names of all modules that have an example in a docstring."""
    names = []
    for base, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            if ">>> " in path.read_text() and path != Path(__file__):
                parts = path.relative_to(ROOT / base).with_suffix("").parts
                names.append(".".join(part for part in parts if part != "__init__"))
    return names


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_print_what_they_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    monkeypatch.delenv("WINDLASS_REPORT_WAITS")
    results = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert results.attempted
    assert not results.failed

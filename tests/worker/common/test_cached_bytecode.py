"""Bytecode that is cached in a folder apart from the sources."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import pytest

from windlass.worker.common.bytecode_cache import imported_through

NAME = "module_with_cached_bytecode"


def load(root: Path, cache: Path) -> int:
    """Import the module as a new process does, and return its value."""
    sys.modules.pop(NAME, None)
    with imported_through(str(cache), str(root)):
        return int(importlib.import_module(NAME).VALUE)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    return root


def test_bytecode_is_reused_until_the_source_changes(root: Path, tmp_path: Path) -> None:
    source, cache = root / f"{NAME}.py", tmp_path / "cache"
    source.write_text("VALUE = 1")
    stamp = source.stat().st_mtime_ns
    assert load(root, cache) == 1
    assert [path.name for path in root.iterdir()] == [source.name]
    [compiled] = cache.iterdir()
    assert compiled.stat().st_mode & 0o77 == 0

    source.write_text("VALUE = 2")  # of the same size and time, so that Python cannot notice it
    os.utime(source, ns=(stamp, stamp))
    assert load(root, cache) == 1
    source.write_text("VALUE = 34")
    assert load(root, cache) == 34


def test_python_imports_as_before_afterwards(root: Path, tmp_path: Path) -> None:
    hooks = [*sys.path_hooks]
    (root / f"{NAME}.py").write_text("import sys; VALUE = int(sys.dont_write_bytecode)")
    assert load(root, tmp_path / "cache") == 1
    assert sys.path_hooks == hooks
    assert str(root) not in sys.path_importer_cache


def test_damaged_bytecode_is_replaced(root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (root / f"{NAME}.py").write_text("VALUE = 1")
    assert load(root, cache) == 1
    [compiled] = cache.iterdir()
    compiled.write_bytes(b"")
    assert load(root, cache) == 1
    assert compiled.stat().st_size > 0


def test_a_cache_that_cannot_be_written_does_no_harm(root: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("not a folder")
    (root / f"{NAME}.py").write_text("VALUE = 1")
    assert load(root, tmp_path / "cache") == 1


def test_data_beside_a_module_is_read_from_the_installation(root: Path, tmp_path: Path) -> None:
    (root / f"{NAME}.py").write_text("VALUE = 1")
    (root / "data.txt").write_text("data")
    load(root, tmp_path / "cache")
    loader = sys.modules[NAME].__loader__
    assert loader is not None
    assert loader.get_data(str(root / "data.txt")) == b"data"  # type: ignore[attr-defined]

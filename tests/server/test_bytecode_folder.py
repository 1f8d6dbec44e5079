"""The folder in which the server caches its bytecode."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from windlass.server.bytecode_folder import use_bytecode_folder


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package without bytecode."""
    monkeypatch.setattr(sys, "path_hooks", [*sys.path_hooks])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "package/server").mkdir(parents=True)
    return tmp_path / "package"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


def test_a_folder_that_others_can_write_to_is_not_used(home: Path, package: Path) -> None:
    (home / "cache").mkdir()
    (home / "cache").chmod(0o777)
    assert use_bytecode_folder(str(home), str(package)) == ""
    (home / "cache").chmod(0o700)
    assert use_bytecode_folder(str(home), str(package)) != ""


def test_an_installation_that_python_can_compile_needs_no_folder(
    home: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert use_bytecode_folder(str(home), str(package)) == ""
    assert not (home / "cache").exists()

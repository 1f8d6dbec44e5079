"""Folders for a tree and a cache, without the settings of the user who runs the tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from trees import git


@pytest.fixture(autouse=True)
def plain_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the git and Windlass settings of the user who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WINDLASS_HOME", str(home / ".windlass"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith("GIT_") and "CONFIG" not in name]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def repository(tree: Path) -> Path:
    git(tree, "init", "-q", "-b", "main")
    return tree


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"

"""Shells in which tests type `windlass`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.shells import Shell, stop_everything


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell with a shared home, for tests that ignore other trials."""
    base = tmp_path_factory.mktemp("cli")
    shell = Shell(base / "project", base / "home")
    yield shell
    stop_everything(shell)


@pytest.fixture(scope="module")
def module_shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A shell with a home that the tests of one file share."""
    base = tmp_path_factory.mktemp("cli")
    shell = Shell(base / "project", base / "home")
    yield shell
    stop_everything(shell)


@pytest.fixture
def own_shell(tmp_path: Path) -> Iterator[Shell]:
    """A shell with a home for one test."""
    shell = Shell(tmp_path / "project", tmp_path / "home")
    yield shell
    stop_everything(shell)

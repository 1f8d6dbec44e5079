"""One home and one server for all files of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import stop_server, stop_trials
from small_projects import import_copies

import_copies(Path(__file__).parent, "output_functions")


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("outputs") / "wl"
    yield home
    stop_server(home)


@pytest.fixture(scope="module")
def module_home(shared_home: Path) -> Iterator[Path]:
    yield shared_home
    stop_trials(shared_home)

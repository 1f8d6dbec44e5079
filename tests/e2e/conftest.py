"""Fixtures that drive programs in terminals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Project, stop_server, stop_trials
from pseudo_terminal import Launch, SlowIndex, Terminal
from small_projects import import_copies

import_copies(Path(__file__).parent, "checkpoint_functions", "metric_functions", "steps")


@pytest.fixture(autouse=True)
def working_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty working folder. Jobs that are submitted here package it."""
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))


@pytest.fixture(scope="session")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of all files with `SHARES_HOME = True`: one server for all of them."""
    home = tmp_path_factory.mktemp("shared") / "wl"
    yield home
    stop_server(home)


@pytest.fixture(scope="module")
def module_home(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The home of a file: the shared home if the file says so, else a separate one.

    A file that shares its home may neither rely on ids and on lists of everything, nor look up an
    experiment by a name that another file uses.
    """
    if getattr(request.module, "SHARES_HOME", False):
        home: Path = request.getfixturevalue("shared_home")
        yield home
        stop_trials(home)
    else:
        home = tmp_path_factory.mktemp("home") / "wl"
        yield home
        stop_server(home)


@pytest.fixture
def one_cpu(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with capacity for one trial, which each test frees again."""
    monkeypatch.setenv("WINDLASS_CPUS", "1")
    yield
    stop_trials(home)


@pytest.fixture
def launch(project: Project) -> Iterator[Launch]:
    """Starts programs of the project in terminals."""
    launched: list[Terminal] = []

    def start(*argv: str | Path, **options: Any) -> Terminal:
        launched.append(Terminal(project, *argv, **options))
        return launched[-1]

    yield start
    for terminal in launched:
        if terminal.process.poll() is None:  # left by a failed test
            terminal.process.kill()
            terminal.process.wait()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
def slow_index(home: Path) -> Iterator[SlowIndex]:
    index = SlowIndex(home)
    yield index
    index.close()

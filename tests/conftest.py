"""Fixtures of all tests: separate homes, and programs written as a user writes them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

import scratch
from harness import BIN, PATIENCE, Project, eventually, stop_server, stop_trials
from xdist_schedule import Scheduling, in_order

__all__ = ["BIN", "PATIENCE", "Project", "eventually", "stop_server", "stop_trials"]

# Most tests do not depend on whether a trial ran long enough to be sampled. Without this setting
# their results would depend on the load of the machine. Tests of sampling turn sampling on.
os.environ.setdefault("WINDLASS_SYSTEM_METRICS", "0")

# The output of a program must not depend on the load of the machine. Tests of reports turn them on.
os.environ.setdefault("WINDLASS_REPORT_WAITS", "never")

# pytest adds the folders of tests to sys.path. Snapshots would contain their modules.
os.environ.setdefault("WINDLASS_OUTSIDE_CODE", "never")

# The files of tests are in memory, where a reserve of disk space for each home would be too much.
os.environ.setdefault("WINDLASS_SPACE_RESERVE", "0")

# A shell that starts pytest in the background makes pytest and its children ignore Ctrl-C.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        is_python_s = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_python_s else signal.SIG_DFL)

# Set this before any process starts, so that child processes put their files there, too.
_SCRATCH = scratch.take()

# The duration of an example means nothing on a busy machine. `make test` runs few examples of each
# property (--hypothesis-profile quick), `make test-all` runs many.
settings.register_profile("thorough", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)
settings.load_profile("thorough")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if _SCRATCH is not None and not config.option.basetemp:
        config.option.basetemp = str(_SCRATCH / "t")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_order(items)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    if _SCRATCH is not None and exitstatus == pytest.ExitCode.OK:  # a failed run keeps its files
        scratch.give_back(_SCRATCH)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for the tests of one file. Its server stops afterwards."""
    home = tmp_path_factory.mktemp("home") / "wl"
    yield home
    stop_server(home)


@pytest.fixture
def home(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the file, set in this process's environment."""
    monkeypatch.setenv("WINDLASS_HOME", str(module_home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    return module_home


@pytest.fixture
def fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home for one test, set in this process's environment."""
    home = tmp_path / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    yield home
    stop_server(home)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A folder with a user's program."""
    return Project(tmp_path / "project")

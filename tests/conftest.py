"""What all tests share: homes of their own, programs written as a user writes them."""

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

# Whether a trial ran long enough to be looked at is no matter of most tests: else what they see
# would depend on how busy the machine is. Those that are about it turn it on.
os.environ.setdefault("WINDLASS_SYSTEM_METRICS", "0")

# A shell that starts us in the background has us ignore Ctrl-C, and all that we start with us.
for number in (signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(number) is signal.SIG_IGN:
        is_python_s = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_python_s else signal.SIG_DFL)

# Before any process is started, which then has its files there, too.
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
    if _SCRATCH is not None and exitstatus == pytest.ExitCode.OK:  # else there is something to see
        scratch.give_back(_SCRATCH)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for the tests of one file, its server gone afterwards."""
    home = tmp_path_factory.mktemp("home") / "wl"
    yield home
    stop_server(home)


@pytest.fixture
def home(module_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file's home, in this process's environment."""
    monkeypatch.setenv("WINDLASS_HOME", str(module_home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    return module_home


@pytest.fixture
def fresh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home for one test alone, in this process's environment."""
    home = tmp_path / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    yield home
    stop_server(home)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A folder with a user's program in it."""
    return Project(tmp_path / "project")

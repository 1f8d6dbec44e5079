"""What several of these files need to drive programs in terminals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import Project, stop_trials
from pseudo_terminal import Launch, SlowIndex, Terminal


@pytest.fixture
def one_cpu(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with room for one trial, which no test leaves taken."""
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
        if terminal.process.poll() is None:  # a test that failed left it
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

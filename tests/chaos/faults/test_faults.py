"""Reads and writes of server and supervisors fail now and then: no record is wrong afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld
from planned_trials import warm_up

import windlass as wl
from fault_injection import Faults
from harness import PATIENCE, eventually, stop_server
from small_projects import import_copy

STEPS = 20

_functions = import_copy(Path(__file__).with_name("recorded_function.py"))


@pytest.fixture
def faults(
    world: HomeWorld, tmp_path: Path, chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Faults]:
    """Faults of the home that begin when the test says so, in the processes that it starts."""
    faults = Faults(world.home, tmp_path, chaos.seed)
    for name, value in faults.environment.items():
        monkeypatch.setenv(name, value)
    yield faults
    faults.end()


@pytest.mark.finding("A1")
@pytest.mark.parametrize("spared", ["windlass.db", ""], ids=["files", "files and database"])
def test_faults_of_reads_and_writes_change_no_record(
    faults: Faults,
    world: HomeWorld,
    folder: Path,
    chaos: Chaos,
    monkeypatch: pytest.MonkeyPatch,
    spared: str,
) -> None:
    monkeypatch.setenv("FAULT_SPARE", spared)
    monkeypatch.setenv("WINDLASS_CPUS", "2")  # four run at a time
    warm_up()
    count = chaos.pick(20, 100)
    names = [f"n{number}" for number in range(count)]
    # The first four run, and the others wait in the queue, when the faults begin.
    trials: dict[str, wl.Trial[Any]] = {
        name: _functions.record.submit(name, str(folder), STEPS, number % 3)
        for number, name in enumerate(names)
    }
    faults.begin()
    (folder / "go").touch()
    ends = [world.attempt(trial.id) / "exit.json" for trial in trials.values()]
    eventually(lambda: all(end.exists() for end in ends), "all have ended")
    faults.end()
    for number, name in enumerate(names):
        check(trials[name].wait(timeout=PATIENCE), name, folder, number % 3)
    assert len(list(wl.list_trials(where="name = 'record'"))) == count
    assert faults.count().total() > count // 2
    stop_server(world.home)


def check(trial: wl.Trial[Any], name: str, folder: Path, way: int) -> None:
    """The record says what the program did, once."""
    about = f"trial {trial.id} ({name}): {trial.state}, {trial.exit_code}, {trial.message!r}"
    assert (folder / f"{name}.begin").read_text() == "x", f"{about} ran once"
    expected = {0: ("SUCCEEDED", 0), 1: ("FAILED", 1), 2: ("FAILED", 7)}[way]
    assert (trial.state, trial.exit_code) == expected, about
    assert [attempt.exit_code for attempt in trial.attempts] == [expected[1]], about
    lines = [line for line in trial.logs() if line.startswith(name)]
    assert lines == [f"{name} step {step}" for step in range(STEPS)], about
    summary = trial.summary_metrics["loss"]
    assert (summary.count, summary.min, summary.last) == (STEPS, 0.0, STEPS - 1.0), about
    steps = [checkpoint.step for checkpoint in trial.list_checkpoints()]
    assert sorted(step for step in steps if step is not None) == [0, STEPS // 2], about
    if way == 0:
        assert trial.result(timeout=PATIENCE) == name
    elif way == 1:
        with pytest.raises(LookupError, match=name):
            trial.result(timeout=PATIENCE)
        assert trial.cause is not None and trial.cause.lines, about

"""Reads and writes of server and supervisors fail now and then: no record is wrong afterwards."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld
from planned_trials import warm_up

import windlass as wl
from harness import PATIENCE, eventually, stop_server
from small_projects import import_copy

SOURCE = Path(__file__).with_name("inject_faults.c")
STEPS = 20

_functions = import_copy(Path(__file__).with_name("recorded_function.py"))


class Faults:
    """Faults of all files below the home, which can be turned on and off."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._home = home
        self._switch = folder / "faults-on"
        self._log = folder / "faults.log"

    def begin(self) -> None:
        self._switch.touch()

    def end(self) -> None:
        self._switch.unlink()

    def count(self) -> Counter[tuple[str, str]]:
        """Return how often each call failed on each kind of file."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        words = [line.split(" ", 3) for line in lines]
        return Counter((call, Path(path).name) for _, call, _, path in words)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("faults") / "inject_faults.so"
    command = ["cc", "-shared", "-fPIC", "-o", str(target), str(SOURCE), "-ldl"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no C compiler for Linux: {error}")
    return target


@pytest.fixture
def faults(
    library: Path, world: HomeWorld, tmp_path: Path, chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Faults]:
    """Faults that begin when the test says so, in the processes that it starts."""
    settings = {
        "LD_PRELOAD": library,
        "FAULT_ROOT": world.home,
        "FAULT_SWITCH": tmp_path / "faults-on",
        "FAULT_LOG": tmp_path / "faults.log",
        "FAULT_ONE_IN": 40,
        "FAULT_SEED": chaos.seed,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    faults = Faults(world.home, tmp_path)
    yield faults
    (tmp_path / "faults-on").unlink(missing_ok=True)


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

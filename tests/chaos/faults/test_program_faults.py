"""Reads and writes of Windlass in user programs fail now and then: values and errors are kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_seed import Chaos
from home_processes import HomeWorld

from fault_injection import Faults
from harness import PATIENCE
from small_projects import import_copy

_functions = import_copy(Path(__file__).with_name("recorded_function.py"))


@pytest.mark.finding("A1")
def test_faults_in_programs_lose_no_value_and_no_exception(
    world: HomeWorld, tmp_path: Path, chaos: Chaos, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(world.home, tmp_path, chaos.seed)
    environment = {
        **faults.environment,
        "FAULT_PROGRAMS": "1",
        "FAULT_ONE_IN": "10",
        "FAULT_SPARE": "/work",  # the files of the user's own code
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WINDLASS_CPUS", "2")
    large = bytes(1_000_000)  # stored apart from the call
    faults.begin()
    count = chaos.pick(20, 100)
    trials = [_functions.measure.submit(large, number) for number in range(count)]
    failing = [_functions.measure.submit(large, -1) for _ in range(count // 4)]
    for trial in (*trials, *failing):
        trial.wait(timeout=PATIENCE)
    faults.end()
    assert faults.count().total() > count // 2
    for number, trial in enumerate(trials):
        assert trial.state == "SUCCEEDED", (trial.id, trial.message, list(trial.logs()))
        assert trial.result(timeout=PATIENCE) == len(large) + number
        assert trial.summary_metrics["value"].count == 1
    for trial in failing:
        with pytest.raises(LookupError, match="negative"):
            trial.result(timeout=PATIENCE)

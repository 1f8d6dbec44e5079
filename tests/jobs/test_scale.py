"""Jobs that grow and shrink while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from replicas import LINGER, LITTLE, alive_in, check_gone, process_of, shell


@pytest.mark.case(7)
def test_from_three_to_one_to_four_the_highest_stop_and_the_others_continue(
    home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    worker = wl.Job(shell(LINGER, go), executor=LITTLE, replicas=3)
    trial = wl.JobGroup(worker=worker).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "all three run")
    stays = process_of(trial, "worker-0")
    trial.scale(worker=1)
    eventually(lambda: alive_in(trial) == {"worker-0.1"}, "the highest are gone")
    trial.scale(worker=4)
    four = {"worker-0.1", "worker-1.2", "worker-2.2", "worker-3.1"}
    eventually(lambda: alive_in(trial) == four, "four run, with attempts that go on counting")
    assert process_of(trial, "worker-0") == stays
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert [(replica.name, replica.attempt) for replica in trial.replicas] == [
        ("worker-0", 1),
        ("worker-1", 2),
        ("worker-2", 2),
        ("worker-3", 1),
    ]
    assert trial.restarts == 0
    check_gone(trial)


@pytest.mark.case(7)
def test_with_job_scope_a_new_size_restarts_all_replicas_uncounted(
    home: Path, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    trial = wl.Job(shell(LINGER, go), executor=LITTLE, replicas=2, framework="torch").submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "both run")
    trial.scale(worker=3)
    three = {"worker-0.2", "worker-1.2", "worker-2.1"}
    eventually(lambda: alive_in(trial) == three, "all three began together")
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert trial.restarts == 0
    check_gone(trial)


@pytest.mark.case(7)
def test_a_job_that_shrinks_to_its_successful_replicas_succeeds(home: Path, tmp_path: Path) -> None:
    """Only a surplus replica still ran."""
    script = "[ $WINDLASS_INDEX = 0 ] || " + LINGER
    trial = wl.Job(shell(script, tmp_path / "never"), executor=LITTLE, replicas=2).submit()
    eventually(lambda: trial.refresh().replicas[0].phase == "Succeeded", "the first is done")
    trial.scale(main=1)
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    check_gone(trial)

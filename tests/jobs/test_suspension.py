"""Suspended jobs have no processes, free their capacity, and have not failed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from replicas import LINGER, LITTLE, alive_in, check_gone, left_of, reasons, shell
from windlass.model.status import ConditionType


@pytest.mark.case(6)
def test_repeated_suspensions_end_all_processes_each_time(home: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    trial = wl.Job(shell(LINGER, go), executor=LITTLE, replicas=2).submit()
    for attempt in (1, 2):
        eventually(lambda: trial.refresh().state == "RUNNING", "all of it runs")
        assert alive_in(trial) == {f"main-0.{attempt}", f"main-1.{attempt}"}
        assert trial.suspend().state == "SUSPENDED"
        check_gone(trial)
        conditions = {condition.type: condition.status for condition in trial.refresh().conditions}
        assert conditions[ConditionType.SUSPENDED]
        assert not conditions[ConditionType.RUNNING]
        assert ConditionType.FAILED not in conditions
        trial.resume()
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert [replica.attempt for replica in trial.replicas] == [3, 3]
    assert trial.restarts == 0, "it was nobody's failure"
    assert "ReplicaRestarting" not in reasons(trial)
    check_gone(trial)


@pytest.mark.case(6)
def test_a_job_created_suspended_creates_nothing_until_it_is_resumed(
    home: Path, tmp_path: Path
) -> None:
    job = wl.Job(shell(": > $1.$WINDLASS_INDEX", tmp_path / "ran"), executor=LITTLE, replicas=2)
    suspended = wl.Job(job.executable, executor=LITTLE, replicas=2, suspend=True).submit()
    assert job.submit().wait(timeout=PATIENCE).state == "SUCCEEDED"  # which was submitted after it
    for path in tmp_path.glob("ran.*"):
        path.unlink()
    assert suspended.refresh().state == "SUSPENDED"
    assert suspended.attempts == ()
    assert left_of(suspended) == []
    assert suspended.resume().wait(timeout=PATIENCE).state == "SUCCEEDED", suspended.message
    assert {path.name for path in tmp_path.glob("ran.*")} == {"ran.0", "ran.1"}
    assert [replica.attempt for replica in suspended.replicas] == [1, 1]


@pytest.mark.case(6)
def test_a_suspended_job_frees_its_capacity_and_queues_again(home: Path, tmp_path: Path) -> None:
    whole = wl.Local(cpus=wl.Client().server_info().capacity.cpus)
    first_go, second_go = tmp_path / "first", tmp_path / "second"
    first = wl.Job(shell(LINGER, first_go), executor=whole).submit()
    second = wl.Job(shell(LINGER, second_go), executor=whole).submit()
    eventually(lambda: first.refresh().state == "RUNNING", "the first runs")
    assert second.refresh().state == "QUEUED"
    first.suspend()
    eventually(lambda: second.refresh().state == "RUNNING", "the second has its room")
    assert left_of(first) == [], "it has it once nothing of the first is left"
    first.resume()
    eventually(lambda: first.refresh().state == "QUEUED", "the first waits in its turn")
    second_go.touch()
    assert second.wait(timeout=PATIENCE).state == "SUCCEEDED", second.message
    first_go.touch()
    assert first.wait(timeout=PATIENCE).state == "SUCCEEDED", first.message


@pytest.mark.case(6)
@pytest.mark.thorough
def test_suspended_time_does_not_count_towards_the_deadline(home: Path, tmp_path: Path) -> None:
    go = tmp_path / "go"
    trial = wl.Job(shell(LINGER, go), executor=LITTLE, active_deadline=5).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    trial.suspend()
    until = trial.record.created + 6
    eventually(lambda: time.time() > until, "more than its deadline has passed")
    assert trial.refresh().state == "SUSPENDED"
    trial.resume()
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs again")
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message


@pytest.mark.case(6)
def test_a_suspended_job_can_be_stopped(home: Path, tmp_path: Path) -> None:
    trial = wl.Job(shell(LINGER, tmp_path / "go"), executor=LITTLE, replicas=2).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    trial.suspend()
    assert trial.stop().wait(timeout=PATIENCE).state == "STOPPED"
    check_gone(trial)

"""The clean policy decides about replicas that still run when the job has ended."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import BIN, PATIENCE, Project, eventually
from replicas import LINGER, LITTLE, alive_in, check_gone, left_of, shell


def end(tmp_path: Path, exit_code: int, **rules: Any) -> wl.Trial[Any]:
    """A job whose chief has ended, while a worker runs until a file exists."""
    chief = wl.Job(shell(f"{LINGER}; exit {exit_code}", tmp_path / "end"), executor=LITTLE)
    worker = wl.Job(shell(LINGER, tmp_path / "go"), executor=LITTLE, restart_policy="Never")
    trial = wl.JobGroup(
        chief=wl.Job(chief.executable, executor=LITTLE, restart_policy="Never"),
        worker=worker,
        framework="tensorflow",
        **rules,
    ).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "all of it runs")
    (tmp_path / "end").touch()
    trial.wait(timeout=PATIENCE)
    assert trial.state == ("FAILED" if exit_code else "SUCCEEDED"), trial.message
    return trial


@pytest.mark.case(7)
@pytest.mark.parametrize("exit_code", [0, 3])
@pytest.mark.parametrize("policy", ["Running", "All"])
def test_running_replicas_are_stopped_at_the_end(
    home: Path, tmp_path: Path, policy: str, exit_code: int
) -> None:
    trial = end(tmp_path, exit_code, clean_policy=policy)
    check_gone(trial)
    eventually(lambda: trial.refresh().attempts[1].ended is not None, "its end is recorded")
    chief, worker = trial.attempts
    assert (chief.exit_code, worker.reason) == (exit_code, "Stopped")
    assert trial.exit_code == exit_code, "the stopped worker does not fail the job"


@pytest.mark.case(7)
@pytest.mark.parametrize("exit_code", [0, 3])
def test_with_policy_none_a_replica_continues_and_keeps_its_capacity(
    home: Path, tmp_path: Path, exit_code: int
) -> None:
    free = wl.Client().server_info().cpus_free
    trial = end(tmp_path, exit_code, clean_policy="None")
    assert alive_in(trial) == {"worker-0.1"}
    wl.Job(shell(":"), executor=LITTLE).submit().wait(timeout=PATIENCE)  # checked after the end
    assert alive_in(trial) == {"worker-0.1"}
    assert wl.Client().server_info().cpus_free < free
    (tmp_path / "go").touch()
    check_gone(trial)
    eventually(lambda: wl.Client().server_info().cpus_free == free, "its room is free")
    eventually(lambda: trial.refresh().attempts[1].exit_code == 0, "it ended by itself")
    assert trial.state == ("FAILED" if exit_code else "SUCCEEDED"), "which changes nothing"


@pytest.mark.case(7)
@pytest.mark.thorough
def test_with_policy_none_a_replica_outlives_the_deadline_of_a_finished_job(
    home: Path, tmp_path: Path
) -> None:
    trial = end(tmp_path, 0, clean_policy="None", active_deadline=8)
    # Supervisors enforce a deadline themselves after two seconds. A finished job has none.
    eventually(lambda: time.time() > trial.record.created + 11, "its time would be up")
    assert alive_in(trial) == {"worker-0.1"}
    assert trial.refresh().state == "SUCCEEDED"
    trial.stop()
    check_gone(trial)


@pytest.mark.case(7)
def test_with_policy_none_the_time_to_live_stops_the_replica(home: Path, tmp_path: Path) -> None:
    free = wl.Client().server_info().cpus_free
    trial = end(tmp_path, 0, clean_policy="None", ttl_after_finished=1)
    check_gone(trial)
    worker = wl.get_trial(trial.id).attempts[1]
    assert (worker.ended - trial.ended).total_seconds() >= 1
    assert worker.reason == "Stopped"
    assert trial.refresh().state == "SUCCEEDED", "the record stays"
    eventually(lambda: wl.Client().server_info().cpus_free == free, "its room is free")


@pytest.mark.case(7)
def test_with_policy_none_a_stop_stops_the_replica(home: Path, tmp_path: Path) -> None:
    free = wl.Client().server_info().cpus_free
    trial = end(tmp_path, 0, clean_policy="None")
    assert left_of(trial) != []
    trial.stop()
    check_gone(trial)
    assert trial.refresh().state == "SUCCEEDED", "it had ended well"
    eventually(lambda: wl.Client().server_info().cpus_free == free, "its room is free")


@pytest.mark.case(7)
def test_windlass_stop_stops_the_replica_and_reports_it(
    home: Path, tmp_path: Path, project: Project
) -> None:
    trial = end(tmp_path, 0, clean_policy="None")
    stopped = project.run(BIN / "windlass", "stop", str(trial.id))
    check_gone(trial)
    assert stopped.returncode == 0, stopped.stderr
    assert "had already ended: it succeeded" in stopped.stdout
    assert "Also stopping: worker-0." in stopped.stdout
    again = project.run(BIN / "windlass", "stop", str(trial.id))
    assert "left running" not in again.stdout

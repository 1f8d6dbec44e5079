"""SIGKILL to the deciding replica in the middle of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from replicas import (
    LINGER,
    LITTLE,
    alive_in,
    check_gone,
    exit_codes,
    process_of,
    reasons,
    shell,
    supervisor_of,
)


def start(go: Path, framework: str | None, chief: str, **rules: Any) -> wl.Trial[Any]:
    """A job whose `chief` decides. All workers run until a file exists."""
    policy = rules.pop("restart_policy", "ExitCode")
    linger = wl.Job(shell(LINGER, go), executor=LITTLE, restart_policy=policy)
    workers = wl.Job(shell(LINGER, go), executor=LITTLE, restart_policy=policy, replicas=2)
    roles = {chief: linger, "worker": workers}
    trial = wl.JobGroup(roles, framework=framework, **rules).submit()
    eventually(lambda: trial.refresh().state == "RUNNING", "all of it runs")
    return trial


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["chief-0", "worker-0"])
@pytest.mark.parametrize(
    "framework", ["tensorflow", pytest.param(None, marks=pytest.mark.thorough)]
)
def test_a_killed_replica_restarts_without_affecting_the_others(
    home: Path, tmp_path: Path, framework: str | None, victim: str
) -> None:
    go = tmp_path / "go"
    chief, _, _ = victim.rpartition("-")
    trial = start(go, framework, chief)
    others = alive_in(trial) - {f"{victim}.1"}
    process_of(trial, victim).kill()
    process_of(trial, victim, attempt=2)
    assert alive_in(trial) == {*others, f"{victim}.2"}
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert exit_codes(trial, victim) == [137, 0]
    assert trial.restarts == 1
    assert {
        attempt.attempt for attempt in trial.attempts if f"{attempt.role}-{attempt.index}" != victim
    } == {1}
    check_gone(trial)


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["chief-0", "worker-0"])
@pytest.mark.parametrize(
    "framework", ["tensorflow", pytest.param(None, marks=pytest.mark.thorough)]
)
def test_with_job_scope_one_killed_replica_restarts_all(
    home: Path, tmp_path: Path, framework: str | None, victim: str
) -> None:
    go = tmp_path / "go"
    chief, _, _ = victim.rpartition("-")
    trial = start(go, framework, chief, restart_scope="job")
    first = alive_in(trial)
    process_of(trial, victim).kill()
    second = {name.replace(".1", ".2") for name in first}
    eventually(lambda: alive_in(trial) == second, "all of them run their second attempt")
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert exit_codes(trial, victim) == [137, 0]
    assert trial.restarts == 1, "one death is one restart, however many start again"
    assert reasons(trial).count("ReplicaRestarting") == 1
    assert {attempt.attempt for attempt in trial.attempts} == {1, 2}
    check_gone(trial)


@pytest.mark.case(3)
@pytest.mark.parametrize("victim", ["chief-0", "worker-0"])
def test_without_restarts_a_killed_replica_fails_the_job(
    home: Path, tmp_path: Path, victim: str
) -> None:
    chief, _, _ = victim.rpartition("-")
    trial = start(tmp_path / "go", "tensorflow", chief, restart_policy="Never")
    process_of(trial, victim).kill()
    assert trial.wait(timeout=PATIENCE).state == "FAILED"
    assert trial.record.reason == "ReplicaFailed"
    assert (trial.exit_code, trial.record.signal) == (137, "SIGKILL")
    assert trial.message.startswith(victim)
    assert "SIGKILL" in trial.message
    check_gone(trial)


@pytest.mark.case(8)
def test_a_replica_with_a_killed_supervisor_has_no_exit_code_and_restarts(
    home: Path, tmp_path: Path
) -> None:
    """A lost replica is like an eviction: under ExitCode it is retried."""
    go = tmp_path / "go"
    trial = start(go, None, "chief")
    supervisor_of(trial, "worker-1").kill()
    process_of(trial, "worker-1", attempt=2)
    assert "worker-1.1" not in alive_in(trial), "its orphan went before the second attempt came"
    go.touch()
    assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", trial.message
    assert exit_codes(trial, "worker-1") == [None, 0]
    assert trial.restarts == 1
    check_gone(trial)

"""The limits of a job: its deadline and its number of restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

import windlass as wl
from harness import PATIENCE, eventually
from replicas import LITTLE, check_gone, exit_codes, reasons, shell, wait_all
from windlass.model.status import ConditionType


@pytest.mark.case(5)
def test_a_deadline_ends_a_job_without_other_events(home: Path) -> None:
    trial = wl.Job(shell("exec sleep 600"), executor=LITTLE, replicas=2, active_deadline=1).submit()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.record.reason) == ("FAILED", "DeadlineExceeded")
    assert "its deadline of 1s" in trial.message
    assert (trial.ended - trial.created).total_seconds() >= 1
    assert reasons(trial).count("DeadlineExceeded") == 1
    assert trial.restarts == 0
    check_gone(trial)


@pytest.mark.case(5)
@pytest.mark.thorough
def test_a_deadline_ends_a_job_before_its_next_attempt(home: Path) -> None:
    """The third attempt would start two seconds after the second, which is after the deadline."""
    job = wl.Job(shell("exit 1"), executor=LITTLE, restart_policy="OnFailure", active_deadline=3)
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.record.reason) == ("FAILED", "DeadlineExceeded")
    assert exit_codes(trial, "main-0") == [1, 1]
    assert trial.restarts == 2, "the restart that was to come had been counted"
    conditions = {condition.type: condition for condition in trial.conditions}
    assert conditions[ConditionType.RESTARTING].reason == "DeadlineExceeded"
    assert not conditions[ConditionType.RESTARTING].status
    check_gone(trial)


@pytest.mark.case(5)
@pytest.mark.thorough
def test_a_deadline_applies_to_the_job_and_not_to_each_attempt(home: Path) -> None:
    """Attempts that are shorter than the deadline together take longer."""
    script = "[ $WINDLASS_ATTEMPT != 1 ] && exec sleep 600; sleep 1; exit 1"
    job = wl.Job(shell(script), executor=LITTLE, restart_policy="OnFailure", active_deadline="3s")
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.record.reason) == ("FAILED", "DeadlineExceeded")
    eventually(lambda: trial.refresh().attempts[1].ended is not None, "the second attempt ends")
    second = trial.attempts[1]
    assert (second.ended - second.started).total_seconds() < 3, "what was left of it, not all of it"
    check_gone(trial)


@pytest.mark.case(5)
def test_the_limit_of_restarts_applies_to_every_policy_with_restarts(home: Path) -> None:
    trials = {
        policy: wl.Job(
            shell("exit 137"), executor=LITTLE, restart_policy=policy, backoff_limit=2
        ).submit()
        for policy in ("ExitCode", "OnFailure", "Always")
    }
    wait_all(trials.values())
    for trial in trials.values():
        assert (trial.state, trial.record.reason) == ("FAILED", "BackoffLimitExceeded")
        assert exit_codes(trial, "main-0") == [137, 137, 137]
        assert trial.restarts == 2
        assert trial.exit_code == 137
        assert "restarted twice, which is the limit" in trial.message


@pytest.mark.case(5)
def test_a_limit_of_none_means_no_restart(home: Path) -> None:
    trials = {
        policy: wl.Job(
            shell("exit 137"), executor=LITTLE, restart_policy=policy, backoff_limit=0
        ).submit()
        for policy in ("ExitCode", "OnFailure", "Always")
    }
    wait_all(trials.values())
    for trial in trials.values():
        assert (trial.state, trial.record.reason) == ("FAILED", "BackoffLimitExceeded")
        assert exit_codes(trial, "main-0") == [137]
        assert trial.restarts == 0
        assert "no restart is allowed" in trial.message
        assert "ReplicaRestarting" not in reasons(trial)


@pytest.mark.case(5)
def test_the_limit_applies_to_all_replicas_together(home: Path) -> None:
    """Three replicas that each fail once need three restarts, and two are allowed."""
    script = "[ $WINDLASS_ATTEMPT != 1 ] || exit 137"
    job = wl.Job(
        shell(script), executor=LITTLE, replicas=3, restart_policy="ExitCode", backoff_limit=2
    )
    trial = job.submit()
    trial.wait(timeout=PATIENCE)
    assert (trial.state, trial.record.reason) == ("FAILED", "BackoffLimitExceeded")
    assert trial.restarts <= 2
    assert reasons(trial).count("ReplicaRestarting") == trial.restarts
    check_gone(trial)

"""The meaning of an exit under each restart policy, tested with real processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from replicas import LITTLE, attempts_of, exit_codes, left_of, reasons, shell, wait_all

KILLED = "kill -{0} $$"  # by a real signal that it sends to itself
ONCE = "[ $WINDLASS_ATTEMPT != 1 ] || exit {0}"  # and success at the second attempt


def ended(trial: wl.Trial[Any]) -> tuple[str, str, list[int | None], int]:
    """The end of a job with one replica: state, reason, the exits of its attempts, restarts."""
    return trial.state, trial.record.reason, exit_codes(trial, "main-0"), trial.restarts


@pytest.mark.case(2)
@pytest.mark.thorough
def test_each_policy_with_each_exit_ends_as_the_table_says(home: Path) -> None:
    failed, done = ("FAILED", "ReplicaFailed"), ("SUCCEEDED", "Completed")
    # One restart is allowed, which ends endless restarts.
    worn_out = ("FAILED", "BackoffLimitExceeded")
    expected = {
        ("Always", "exit 0"): (*worn_out, [0, 0], 1),
        ("Always", "exit 1"): (*worn_out, [1, 1], 1),
        ("OnFailure", "exit 0"): (*done, [0], 0),
        ("OnFailure", "exit 1"): (*worn_out, [1, 1], 1),
        ("OnFailure", ONCE.format(1)): (*done, [1, 0], 1),
        ("Never", "exit 0"): (*done, [0], 0),
        ("Never", "exit 1"): (*failed, [1], 0),
        ("Never", KILLED.format("KILL")): (*failed, [137], 0),
        ("ExitCode", "exit 0"): (*done, [0], 0),
        ("ExitCode", "exit 1"): (*failed, [1], 0),
        ("ExitCode", "exit 127"): (*failed, [127], 0),
        ("ExitCode", "no-such-command"): (*failed, [127], 0),
        ("ExitCode", "exit 128"): (*worn_out, [128, 128], 1),
        ("ExitCode", "exit 130"): (*worn_out, [130, 130], 1),
        ("ExitCode", "exit 137"): (*worn_out, [137, 137], 1),
        ("ExitCode", "exit 143"): (*worn_out, [143, 143], 1),
        ("ExitCode", "exit 255"): (*worn_out, [255, 255], 1),
        ("ExitCode", KILLED.format("INT")): (*worn_out, [130, 130], 1),
        ("ExitCode", KILLED.format("KILL")): (*worn_out, [137, 137], 1),
        ("ExitCode", KILLED.format("TERM")): (*worn_out, [143, 143], 1),
        ("ExitCode", ONCE.format(143)): (*done, [143, 0], 1),
        ("ExitCode", f"[ $WINDLASS_ATTEMPT != 1 ] || {KILLED.format('KILL')}"): (
            *done,
            [137, 0],
            1,
        ),
    }
    trials = {
        (policy, script): wl.Job(
            shell(script), executor=LITTLE, restart_policy=policy, backoff_limit=1
        ).submit()
        for policy, script in expected
    }
    wait_all(trials.values())
    assert {case: ended(trial) for case, trial in trials.items()} == expected
    for trial in trials.values():
        assert reasons(trial).count("ReplicaRestarting") == trial.restarts
        assert reasons(trial).count("ReplicaStarting") == len(trial.attempts)
        assert left_of(trial) == []


@pytest.mark.case(2)
def test_a_restarted_replica_keeps_its_name_and_waits_a_second_then_two(home: Path) -> None:
    job = wl.Job(shell("exit 1"), executor=LITTLE, restart_policy="OnFailure", backoff_limit=2)
    trial = job.submit()
    first, second, third = trial.wait(timeout=60).attempts
    assert [attempt.attempt for attempt in attempts_of(trial, "main-0")] == [1, 2, 3]
    assert (second.started - first.ended).total_seconds() >= 1
    assert (third.started - second.ended).total_seconds() >= 2
    assert "restarted twice, which is the limit" in trial.message


@pytest.mark.case(2)
def test_a_restart_of_one_replica_leaves_the_others_alone(home: Path) -> None:
    script = "[ $WINDLASS_INDEX != 1 ] || [ $WINDLASS_ATTEMPT != 1 ] || exit 3"
    trial = wl.Job(shell(script), executor=LITTLE, replicas=3).submit()
    trial.wait(timeout=60)
    assert trial.state == "SUCCEEDED", trial.message
    codes = {name: exit_codes(trial, name) for name in ("main-0", "main-1", "main-2")}
    assert codes == {"main-0": [0], "main-1": [3, 0], "main-2": [0]}
    assert trial.restarts == 1


@pytest.mark.case(2)
def test_with_job_scope_all_replicas_restart_together(home: Path) -> None:
    """A restart of all replicas counts once, with any number of failures."""
    script = "[ $WINDLASS_ATTEMPT != 1 ] || { [ $WINDLASS_INDEX = 1 ] && exit 3; sleep 60; }"
    trial = wl.Job(shell(script), executor=LITTLE, replicas=3, restart_scope="job").submit()
    trial.wait(timeout=60)
    assert trial.state == "SUCCEEDED", trial.message
    assert exit_codes(trial, "main-1") == [3, 0]
    assert [len(exit_codes(trial, name)) for name in ("main-0", "main-2")] == [2, 2]
    assert trial.restarts == 1
    first = [attempt for attempt in trial.attempts if attempt.attempt == 1]
    second = [attempt for attempt in trial.attempts if attempt.attempt == 2]
    # No new attempt started while an old one still existed.
    assert min(attempt.started for attempt in second) >= max(attempt.ended for attempt in first)

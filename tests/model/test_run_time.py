"""The run time of trials with suspensions and restarts."""

from __future__ import annotations

from typing import Any

import pytest

from windlass.model.job import JobSpec, ProcessCall, Role
from windlass.model.records import Attempt, TrialRecord, TrialState
from windlass.model.run_time import seconds_run
from windlass.model.status import Condition, ConditionType

SPEC = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
WAS_SUSPENDED = (Condition(type=ConditionType.SUSPENDED, status=False),)


def record(**more: Any) -> TrialRecord:
    return TrialRecord(
        id=1, uid="c0ffee", name="t", experiment="t", experiment_id=1, project="default",
        state=TrialState.RUNNING, spec=SPEC, **more,
    )  # fmt: skip


def attempt(number: int, started: float | None, ended: float | None) -> Attempt:
    return Attempt(
        role="worker", index=0, attempt=number, phase="Failed", started=started, ended=ended
    )


@pytest.mark.parametrize(
    ("fields", "now", "seconds"),
    [
        ({}, 50.0, None),
        ({"started": 10.0}, None, None),
        ({"started": 10.0}, 50.0, 40.0),
        ({"started": 10.0}, 5.0, 0.0),
        ({"started": 10.0, "ended": 30.0}, 50.0, 20.0),
        ({"started": 10.0, "ended": 30.0}, None, 20.0),
    ],
)
def test_a_trial_without_suspensions(
    fields: dict[str, Any], now: float | None, seconds: float | None
) -> None:
    pause = (attempt(1, 10.0, 12.0), attempt(2, 25.0, None))  # time between restarts counts
    assert seconds_run(record(attempts=pause, **fields), now) == seconds


@pytest.mark.parametrize(
    ("attempts", "ended", "seconds"),
    [
        ([(10.0, 12.0), (40.0, None)], None, 12.0),
        ([(10.0, 12.0), (40.0, 45.0)], 45.0, 7.0),
        ([(10.0, 12.0), (40.0, 5000.0)], 45.0, 7.0),  # one outlived the job, under its clean policy
        ([(10.0, 12.0), (10.0, 14.0)], None, 4.0),  # replicas run in parallel
        ([(None, None)], 45.0, 35.0),
    ],
)
def test_a_trial_with_suspensions(
    attempts: list[tuple[float | None, float | None]], ended: float | None, seconds: float
) -> None:
    made = tuple(attempt(number, *times) for number, times in enumerate(attempts, 1))
    trial = record(started=10.0, ended=ended, attempts=made, conditions=WAS_SUSPENDED)
    assert seconds_run(trial, 50.0) == seconds

"""Computes how long trials ran."""

from __future__ import annotations

from windlass.model.records import TrialRecord
from windlass.model.status import ConditionType


def seconds_run(record: TrialRecord, now: float | None = None) -> float | None:
    """Return how many seconds a trial has run, or None if this is unknown.

    A running trial is measured up to `now`. Time without running replicas while the trial was
    suspended is not counted.
    """
    end = now if record.ended is None else record.ended
    if record.started is None or end is None:
        return None
    if all(condition.type is not ConditionType.SUSPENDED for condition in record.conditions):
        return max(end - record.started, 0.0)
    spans = [
        (attempt.started, end if attempt.ended is None else min(attempt.ended, end))
        for attempt in record.attempts
        if attempt.started is not None
    ]
    return _covered(spans) if spans else max(end - record.started, 0.0)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the total time that spans of time cover. Overlaps count once.

    >>> _covered([(0.0, 2.0), (1.0, 3.0), (1.0, 1.5), (10.0, 11.0), (20.0, 19.0)])
    4.0
    """
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total

"""Reads a trial's value, which the trial either reported or returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from windlass.client.resources.trial.trial import Trial
from windlass.model.records import TrialState


def returned_value(trial: Trial[Any], metric: str) -> float | None:
    """Return the number that a trial's function returned, or None if it returned no number.

    The function can also return a mapping that contains the number under the metric's name.
    """
    if trial.record.state is not TrialState.SUCCEEDED or trial.record.result is None:
        return None
    value = trial.outcome().value
    return to_number(value.get(metric) if isinstance(value, Mapping) else value)


def to_number(value: Any) -> float | None:
    """Convert a value, such as a number or an array with a single number, to a float or None.

    >>> to_number(3), to_number("3"), to_number(True), to_number([3])
    (3.0, None, None, None)
    """
    if isinstance(value, (bool, str, bytes, Mapping)) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def last_value(trial: Trial[Any], metric: str) -> float | None:
    """Return the last value of a metric that a trial reported.

    If it reported none, return the number that its function returned.
    """
    summary = trial.record.metrics.get(metric)
    if summary is not None and summary.count:
        return summary.last
    return returned_value(trial, metric)

"""Formats the parameters, the duration and the outcome of trials for tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.cli.output.table import Cell
    from windlass.model.records import TrialRecord


def short_params(params: Mapping[str, Any]) -> str:
    """Format the parameters of a trial on one line.

    >>> short_params({"lr": 0.1, "shuffle": True, "data": "a b"})
    "lr=0.1 shuffle=True data='a b'"
    """
    from windlass.cli.output.text import clean

    return clean(" ".join(f"{name}={_short_value(value)}" for name, value in params.items()))


def format_run_time(record: TrialRecord, now: float) -> str:
    """Format the time that a trial has run."""
    from windlass.model.run_time import seconds_run
    from windlass.model.text.quantities import format_duration

    seconds = seconds_run(record, now)
    return "-" if seconds is None else format_duration(seconds)


def outcome_of(record: TrialRecord) -> str | Cell:
    """Describe the result, the error or the message of a trial in a few words."""
    from windlass.cli.output.table import Cell
    from windlass.cli.output.text import clean
    from windlass.model.records import TrialState

    value = record.result.text if record.result is not None else None
    if value is not None and not (value == "None" and record.asked_to_stop):
        return clean(value)
    if record.error is not None:
        return Cell(clean(f"{record.error.type}: {record.error.message}"), "red")
    outcome = "" if record.state is TrialState.SUCCEEDED else record.message
    if not outcome and record.asked_to_stop:
        outcome = f"asked to stop: {record.asked_to_stop}"
    return Cell(clean(outcome), "dim")


def _short_value(value: object) -> str:
    is_plain = isinstance(value, str) and value and not set(value) & set(" \t\n='\"")
    return str(value) if is_plain else repr(value)

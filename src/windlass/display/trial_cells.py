"""Formats trials' parameters, durations and outcomes for tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.display.table import Cell
    from windlass.model.records import TrialRecord

_LONG_NUMBER = 8  # characters
_MOST_METRICS = 2
_VALIDATION = re.compile(r"\b_?(?:val|valid|validation|test|eval)(?=$|[^a-z])")
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)\b|[A-Z]\w*: ")


def short_params(params: Mapping[str, Any]) -> str:
    """Format a trial's parameters on one line.

    >>> short_params({"lr": 0.1, "shuffle": True, "data": "a b"})
    "lr=0.1 shuffle=True data='a b'"
    """
    from windlass.model.text.display import clean

    return clean(" ".join(f"{name}={short_value(value)}" for name, value in params.items()))


def state_of(record: TrialRecord) -> str:
    """Format a trial's state. While the trial runs, add its progress and running replicas.

    If a search stopped the trial early, the state is shown as `PRUNED`.
    """
    if record.state.is_final:
        return "PRUNED" if record.was_pruned else record.state.value
    # Attempts are in order, so the newest one replaces older ones.
    phases = {(attempt.role, attempt.index): attempt.phase for attempt in record.attempts}
    names = [(role.name, index) for role in record.spec.roles for index in range(role.replicas)]
    parts = [record.state.value]
    if len(names) > 1:
        up = sum(phases.get(name) in ("Running", "Succeeded") for name in names)
        parts.append(f"{up}/{len(names)}")
    if record.progress is not None:
        parts.append(f"{record.progress:.0%}")
    return " ".join(parts)


def format_summary(record: TrialRecord, metric: str, aspect: str = "") -> str:
    """Format a metric's last value, or another aspect such as `min`."""
    summary = record.metrics.get(metric)
    value = None if summary is None else getattr(summary, aspect or "last")
    return "-" if value is None else f"{float(value):.6g}"


def format_run_time(record: TrialRecord, now: float) -> str:
    """Format how long a trial has run."""
    from windlass.model.run_time import seconds_run
    from windlass.model.text.quantities import format_duration

    seconds = seconds_run(record, now)
    return "-" if seconds is None else format_duration(seconds)


def outcome_of(record: TrialRecord) -> str | Cell:
    """Describe a trial's outcome in a few words.

    The outcome is the trial's error, return value, newest metrics or message.
    """
    from windlass.display.table import Cell
    from windlass.model.records import TrialState
    from windlass.model.text.display import clean

    if record.error is not None:
        return Cell(clean(f"{record.error.type}: {record.error.message}"), "red")
    value = record.result.text if record.result is not None else "None"
    if value != "None":
        return clean(_short_number(value))
    if record.state is TrialState.FAILED and (error := _printed_error(record)):
        return Cell(clean(error), "red")
    outcome = "" if record.state is TrialState.SUCCEEDED else record.message
    if not outcome and record.asked_to_stop:
        outcome = record.asked_to_stop
        outcome = outcome if outcome.startswith("pruned") else f"asked to stop: {outcome}"
    metrics = " ".join(f"{name}={value}" for name, value in _key_metrics(record))
    if metrics and not outcome:
        return clean(metrics)
    if not outcome and record.result is not None:
        return value
    return Cell(clean(f"{metrics}  {outcome}".strip()), "dim")


def _short_number(text: str) -> str:
    """Shorten a float to six significant digits. Other values stay as they are."""
    try:
        is_float = not text.lstrip("-").isdigit()
        return f"{float(text):.6g}" if is_float and len(text) > _LONG_NUMBER else text
    except ValueError:
        return text


def _printed_error(record: TrialRecord) -> str:
    """Return the last line of the traceback that a program printed, or ""."""
    lines = record.cause.lines if record.cause is not None else ()
    if not any(line.startswith("Traceback (most recent call last)") for line in lines):
        return ""
    return next((line for line in reversed(lines) if _EXCEPTION.match(line)), "")


def _key_metrics(record: TrialRecord) -> list[tuple[str, str]]:
    """Return the last values of two reported metrics. Validation metrics come first."""
    from windlass.model.records import own_metrics

    finals = [(name, summary.last) for name, summary in own_metrics(record.metrics).items()]
    finals.sort(key=lambda metric: not _VALIDATION.search(metric[0]))
    return [(name, f"{value:.4g}") for name, value in finals if value is not None][:_MOST_METRICS]


def short_value(value: object) -> str:
    """Format the value of a parameter."""
    if isinstance(value, float):
        return _short_number(repr(value))
    is_plain = isinstance(value, str) and value and not set(value) & set(" \t\n='\"")
    return str(value) if is_plain else repr(value)

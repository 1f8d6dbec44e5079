"""Formats a trial's error as text for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.records import ErrorInfo, TrialRecord


def describe_error(
    record: TrialRecord, error: ErrorInfo, format_tip: Callable[[str, TrialRecord], str]
) -> str:
    """Format a failed trial's traceback, and add a tip if the cause is known."""
    from windlass.cli.output.text import clean_lines
    from windlass.client.resources.trial.failure_tips import tip_for

    brief = f"{error.type}: {error.message}"
    tip = tip_for(record, f"{brief}\n{error.traceback}")
    text = error.traceback.rstrip() or brief
    return clean_lines(f"{text}\n{format_tip(tip, record)}" if tip else text)

"""What a trial raised, as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.records import ErrorInfo, TrialRecord


def describe_error(record: TrialRecord, error: ErrorInfo) -> str:
    """Its traceback, and a way out if it is a known failure. Both quote what the trial said."""
    from windlass.cli.text import clean_lines
    from windlass.client.tips import tip_for

    brief = f"{error.type}: {error.message}"
    tip = tip_for(record, f"{brief}\n{error.traceback}")
    told = error.traceback.rstrip() or brief
    return clean_lines(f"{told}\n{tip}" if tip else told)

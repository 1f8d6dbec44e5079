"""Inserts rows into the events table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.model.status import Event
from windlass.server.db.base import Connection

_ADD_EVENT = """
INSERT INTO events (trial_id, time, kind, reason, message)
VALUES (:trial_id, :time, :kind, :reason, :message)
"""


def add_events(connection: Connection, trial_id: int, happened: Sequence[Event]) -> None:
    """Add a trial's events."""
    if happened:
        connection.run_many(_ADD_EVENT, [_event_row(trial_id, event) for event in happened])


def _event_row(trial_id: int, event: Event) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "time": event.time,
        "kind": event.kind.value,
        "reason": without_nul(event.reason),
        "message": without_nul(event.message),
    }


def without_nul(text: str) -> str:
    r"""Replace NUL characters with the symbol `␀`, because not all databases can store NUL.

    >>> without_nul("embedded null byte: \0")
    'embedded null byte: ␀'
    """
    return text.replace("\0", "␀")

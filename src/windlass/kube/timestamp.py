"""Parses and formats Kubernetes timestamps, such as `2026-11-16T10:30:00Z`."""

from __future__ import annotations

from datetime import datetime, timezone


def parse_timestamp(moment: str | None) -> float | None:
    """Convert an API timestamp to seconds since the epoch. Return None if it is missing or invalid.

    >>> parse_timestamp("2026-11-16T10:30:00Z"), parse_timestamp("2026-11-16T10:30:00.250000Z")
    (1794825000.0, 1794825000.25)
    >>> parse_timestamp(None)
    """
    if not moment:
        return None
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def time_text(moment: float) -> str:
    """Convert seconds since the epoch to an API timestamp.

    >>> time_text(1794825000.9)
    '2026-11-16T10:30:00Z'
    """
    when = datetime.fromtimestamp(int(moment), timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")

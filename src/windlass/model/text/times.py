"""Points in time. All strings such as `2026-11-16` and `2h` (two hours ago) are parsed here."""

from __future__ import annotations

import math
import time
from datetime import date, datetime, timezone
from typing import Any, overload

from windlass.model.errors import shown
from windlass.model.text.quantities import parse_duration


def parse_time(value: Any, now: float | None = None) -> float:
    """Parse a number, a date or an age such as `"2h"` into seconds since the epoch.

    A date or time without a UTC offset is taken to be in this machine's time zone.

    >>> parse_time("2026-11-16T10:30:00+00:00"), parse_time("2h", now=10_000.0)
    (1794825000.0, 2800.0)
    >>> parse_time("soon")
    Traceback (most recent call last):
    ...
    ValueError: 'soon' is not a time; write '2026-11-16', '2026-11-16 10:30', or '2h' for 2 h ago
    """
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day).timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        read = _of_date(value.strip())
        if read is not None:
            return read
        try:
            return (time.time() if now is None else now) - parse_duration(value)
        except ValueError:
            pass
    raise ValueError(
        f"{shown(value)} is not a time; write '2026-11-16', '2026-11-16 10:30', or '2h' for 2 h ago"
    )


@overload
def to_datetime(seconds: float) -> datetime: ...


@overload
def to_datetime(seconds: float | None) -> datetime | None: ...


def to_datetime(seconds: float | None) -> datetime | None:
    """Convert seconds since the epoch to a datetime in UTC. None stays None.

    >>> str(to_datetime(1794825000.5))
    '2026-11-16 10:30:00.500000+00:00'

    Fractions of a microsecond are cut off, so that the datetime is never later than the given time.
    This way, `created_after=trial.created`, for example, includes the trial itself.
    """
    if seconds is None:
        return None
    whole = math.floor(seconds)
    exact = datetime.fromtimestamp(whole, timezone.utc)
    return exact.replace(microsecond=math.floor((seconds - whole) * 1_000_000))


def _of_date(text: str) -> float | None:
    if text.endswith(("Z", "z")):
        text = f"{text[:-1]}+00:00"  # Python 3.10 cannot parse "Z"
    if len(text) < len("2026-11-16"):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None

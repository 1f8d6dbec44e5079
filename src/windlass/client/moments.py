"""Points in time as people write them."""

from __future__ import annotations

import math
import time
from datetime import datetime
from typing import TypeAlias

from windlass.model.errors import InvalidArgument, shown
from windlass.model.quantities import parse_duration

Moment: TypeAlias = "datetime | float | str"


def parse_moment(value: Moment, *, now: float | None = None) -> float:
    """Seconds since the epoch: of a datetime, of seconds, of `"10m"` (ago) or `"2026-11-16 09:30"`.

    A datetime without a time zone is of this machine's.

    >>> parse_moment("10m", now=1000.0), parse_moment(1763244000.5)
    (400.0, 1763244000.5)
    """
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    if isinstance(value, str):
        try:
            return (time.time() if now is None else now) - parse_duration(value)
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            pass
    raise InvalidArgument(
        f"{shown(value)} is no point in time.",
        hint="Give a datetime, seconds since the epoch, a text such as '10m' (that long ago), "
        "or '2026-11-16 09:30'.",
    )

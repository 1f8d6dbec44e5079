"""Parses user-supplied points in time, such as "2026-11-16" or "2h"."""

from __future__ import annotations

from datetime import date

from windlass.model.errors import InvalidArgument
from windlass.model.text.times import parse_time

# A date or datetime, seconds since the epoch, "2026-11-16 09:30", or "2h" (two hours ago).
Moment = float | str | date


def parse_moment(argument: str, value: Moment | None) -> float | None:
    """Convert an argument's time to seconds since the epoch. None stays None.

    >>> parse_moment("since", "soon")
    Traceback (most recent call last):
    windlass.InvalidArgument: since: 'soon' is not a time; ...
    """
    if value is None:
        return None
    try:
        return parse_time(value)
    except ValueError as error:
        raise InvalidArgument(f"{argument}: {error}.") from None

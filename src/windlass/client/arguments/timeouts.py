"""Parses user-supplied timeouts, such as 90 or "10m"."""

from __future__ import annotations

from windlass.model.errors import InvalidArgument
from windlass.model.text.quantities import parse_duration


def parse_timeout(timeout: float | str | None) -> float | None:
    """Convert a user-supplied timeout to seconds. A negative timeout becomes 0."""
    if timeout is None:
        return None
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and timeout <= 0:
        return 0.0
    try:
        return parse_duration(timeout)
    except ValueError as error:
        raise InvalidArgument(f"{error}.") from None

"""Durations and sizes. All strings such as `"4h"` and `"16GB"` are parsed and formatted here."""

from __future__ import annotations

import re

from windlass.model.errors import shown

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_UNITS |= {"sec": 1.0, "second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0}
_DURATION_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.ASCII)
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?)b?\s*", re.ASCII | re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_LARGEST_DURATION = 10 * 365 * 86400.0
_LARGEST_SIZE = 2**60


def parse_duration(value: str | int | float) -> float:
    """Parse a duration, a number or a string such as `"90s"` or `"1h30m"`, into seconds.

    >>> parse_duration("1h30m")
    5400.0
    >>> parse_duration("soon")
    Traceback (most recent call last):
    ...
    ValueError: 'soon' is not a duration; write seconds or a string such as '90s', '4h' or '1h30m'
    """
    seconds = _duration_seconds(value)
    if seconds is None:
        raise ValueError(
            f"{shown(value)} is not a duration; write seconds or a string such as "
            "'90s', '4h' or '1h30m'"
        )
    if not 0 < seconds <= _LARGEST_DURATION:
        raise ValueError(
            f"{shown(value)} is out of range; a duration is above 0 and at most ten years"
        )
    return seconds


def _duration_seconds(value: str | int | float) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        try:
            return float(value)
        except OverflowError:
            return float("inf")
    if not isinstance(value, str):
        return None
    text, total, position = value.lower(), 0.0, 0
    if re.fullmatch(r"\s*\d+(?:\.\d+)?\s*", text, re.ASCII):
        return float(text)
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None:
            return None
        unit = part[2] if part[2] in _DURATION_UNITS else part[2].removesuffix("s")
        if unit not in _DURATION_UNITS:
            return None
        total += float(part[1]) * _DURATION_UNITS[unit]
        position = part.end()
    return total if position else None


def format_duration(seconds: float) -> str:
    """Format a duration with at most two units.

    >>> [format_duration(s) for s in (0, 0.0042, 0.25, 1, 3.14159, 75, 5400, 200000)]
    ['0s', '4ms', '250ms', '1s', '3.1s', '1m 15s', '1h 30m', '2d 7h']
    """
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit} {rest}{smaller}" if rest else f"{whole // size}{unit}"
    return f"{whole}s"


def format_ago(moment: float, now: float) -> str:
    """Format the approximate time since a moment.

    >>> [format_ago(1000.0 - s, now=1000.0) for s in (0.2, 3.7, 200, 7500)]
    ['just now', '3s ago', '3m ago', '2h ago']
    """
    passed = int(now - moment)
    if passed < 1:
        return "just now"
    return format_duration(passed).split()[0].replace(".0s", "s") + " ago"


def parse_size(value: str | int) -> int:
    """Parse a size, a number or a string such as `"512MiB"` or `"16GB"`, into bytes.

    `GB` is 10**9 bytes. `GiB` and `G` are 2**30, as in Kubernetes.

    >>> parse_size("2GiB"), parse_size("1.5KB")
    (2147483648, 1500)
    >>> parse_size("4XB")
    Traceback (most recent call last):
    ...
    ValueError: '4XB' is not a size; write bytes or a string such as '512MB', '16GB' or '2GiB'
    """
    size: float | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        decimal = value.strip().lower().endswith("b") and not match[3]
        size = float(match[1]) * (1000 if decimal else 1024) ** _POWERS[match[2].lower()]
    if size is None:
        raise ValueError(
            f"{shown(value)} is not a size; write bytes or a string such as "
            "'512MB', '16GB' or '2GiB'"
        )
    if not 0 < size <= _LARGEST_SIZE:
        raise ValueError(
            f"{shown(value)} is out of range; a size is above 0 and at most an exabyte"
        )
    return int(size)


def format_size(size: float) -> str:
    """Format a size with a decimal unit.

    >>> [format_size(n) for n in (0, 999, 12345, 2 * 10**9)]
    ['0 B', '999 B', '12.3 kB', '2.0 GB']
    """
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} PB"


def format_ordinal(number: int) -> str:
    """Format an ordinal number.

    >>> [format_ordinal(n) for n in (1, 2, 3, 4, 11, 22)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd']
    """
    suffix = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{suffix or 'th'}"

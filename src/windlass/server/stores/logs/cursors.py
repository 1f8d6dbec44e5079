"""Log cursors, such as `main-0.1:4096`. A cursor for several attempts is a comma-separated list.

The example refers to byte 4096 in the log of the replica `main-0`, attempt 1. A search may stop in
the middle of a line whose beginning it has read. In that case, the cursor also contains the
distance back to the beginning of the line, as in `main-0.1:4096-300`.

A cursor never expires, because log files only grow. For each replica, it names only the newest
attempt that the reader has started to read. Earlier attempts were read to their end, because an
attempt writes nothing after the next attempt has started.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from windlass.model.errors import InvalidArgument

Key = tuple[str, int, int]  # role, index, attempt

# Enough for a thousand replicas. A URL that contains a quoted cursor of this length stays below 64
# KB, which is the most that a server reads.
LONGEST_CURSOR = 32 * 1024

_POSITION = re.compile(
    r"([a-z][a-z0-9-]*)-(\d{1,6})\.(\d{1,9}):(\d{1,15})(?:-(\d{1,9}))?", re.ASCII
)


class Positions(dict[Key, int]):
    """The position up to which each log segment was read.

    A search may stop in the middle of a line that it has not returned yet. For such a segment,
    `back` is the distance from the position back to the start of that line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.back: dict[Key, int] = {}  # the distance from the position back to the line's start


def parse_cursor(cursor: str | None) -> Positions:
    """Parse a cursor into the position in each log segment.

    >>> parse_cursor("main-0.1:4096")
    {('main', 0, 1): 4096}
    """
    positions = Positions()
    for position in cursor.split(",") if cursor else ():
        match = _POSITION.fullmatch(position)
        if match is None:
            raise InvalidArgument(
                "The cursor is not from this log.", hint="Start again without a cursor."
            )
        key = (match[1], int(match[2]), int(match[3]))
        positions[key] = int(match[4])
        if match[5]:
            positions.back[key] = min(int(match[5]), positions[key])
    return positions


def format_cursor(positions: dict[Key, int], back: Mapping[Key, int] = MappingProxyType({})) -> str:
    """Return the cursor for these positions. This is the inverse of `parse_cursor`.

    >>> format_cursor({("main", 0, 1): 4096, ("worker", 0, 1): 99, ("worker", 0, 2): 7})
    'main-0.1:4096,worker-0.2:7'
    >>> format_cursor({("main", 0, 1): 4096}, {("main", 0, 1): 300})
    'main-0.1:4096-300'
    """
    newest = newest_attempts(positions)
    return ",".join(
        f"{role}-{index}.{attempt}:{offset}"
        + (f"-{back[role, index, attempt]}" if back.get((role, index, attempt)) else "")
        for (role, index, attempt), offset in sorted(positions.items())
        if newest[role, index] == attempt
    )


def newest_attempts(positions: dict[Key, int]) -> dict[tuple[str, int], int]:
    """Return each replica's newest attempt that has a position."""
    newest: dict[tuple[str, int], int] = {}
    for role, index, attempt in positions:
        newest[role, index] = max(attempt, newest.get((role, index), 0))
    return newest

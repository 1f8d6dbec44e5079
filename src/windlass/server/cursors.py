"""How far logs were read: `main-0.1:4096` for one attempt, joined by commas for several.

A cursor stays good for ever, since segments only grow. It names the newest attempt of each
replica that was begun: the ones before it were read to their ends, for an attempt writes
nothing any more when the next one starts.
"""

from __future__ import annotations

import re

from windlass.model.errors import InvalidArgument

Key = tuple[str, int, int]  # role, index, attempt

# Room for a thousand replicas; quoted in an address it stays below the 64 KB a server reads of one.
LONGEST_CURSOR = 32 * 1024

_PLACE = re.compile(r"([a-z][a-z0-9-]*)-(\d{1,6})\.(\d{1,9}):(\d{1,15})", re.ASCII)


def parse_cursor(cursor: str | None) -> dict[Key, int]:
    """Where each segment goes on.

    >>> parse_cursor("main-0.1:4096")
    {('main', 0, 1): 4096}
    """
    places: dict[Key, int] = {}
    for place in cursor.split(",") if cursor else ():
        match = _PLACE.fullmatch(place)
        if match is None:
            raise InvalidArgument(
                "The cursor is not one this log gave out.", hint="Start again without a cursor."
            )
        places[(match[1], int(match[2]), int(match[3]))] = int(match[4])
    return places


def format_cursor(places: dict[Key, int]) -> str:
    """The cursor that `parse_cursor` reads.

    >>> format_cursor({("main", 0, 1): 4096, ("worker", 0, 1): 99, ("worker", 0, 2): 7})
    'main-0.1:4096,worker-0.2:7'
    """
    newest = newest_attempts(places)
    return ",".join(
        f"{role}-{index}.{attempt}:{offset}"
        for (role, index, attempt), offset in sorted(places.items())
        if newest[role, index] == attempt
    )


def newest_attempts(places: dict[Key, int]) -> dict[tuple[str, int], int]:
    """Which attempt of each replica is the newest that was begun."""
    newest: dict[tuple[str, int], int] = {}
    for role, index, attempt in places:
        newest[role, index] = max(attempt, newest.get((role, index), 0))
    return newest

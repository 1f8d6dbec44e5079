"""The protocol of a log store, which returns the output of trials in chronological order.

A cursor is a text that marks a position in a trial's log. It stays valid as the log grows.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

import msgspec

from windlass.model.logs import LogPart
from windlass.model.status import ReplicaId
from windlass.server.stores.logs.cursors import Key
from windlass.server.stores.logs.pattern import Pattern

PAGE = 256 * 1024  # bytes from log files per page
HITS = 1000  # matching lines per page of search results


class Window(NamedTuple):
    """A period of time, in seconds since the epoch. A limit of None means no limit."""

    since: float | None = None
    until: float | None = None


ANY_TIME = Window()


class LogSelection(msgspec.Struct, frozen=True):
    """Selects the part of a log to read, by replica, attempt and time.

    A filter that is None selects everything.

    Pages, searches, tails and followers of a log all apply these filters.
    """

    role: str | None = None
    index: int | None = None
    attempt: int | None = None
    since: float | None = None
    until: float | None = None

    @property
    def window(self) -> Window:
        return Window(self.since, self.until)

    def holds(self, key: Key) -> bool:
        role, index, attempt = key
        return (
            self.role in (None, role)
            and self.index in (None, index)
            and self.attempt in (None, attempt)
        )


WHOLE_LOG = LogSelection()


class Page(NamedTuple):
    """A part of a log, the cursor after that part, and whether more can be read now."""

    parts: list[LogPart]
    cursor: str
    has_more: bool


class Slice:
    """The time limit for one page of a search.

    When the time is over, the page ends with a cursor.
    """

    def __init__(self, seconds: float = 0.25) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end


class LogStore(Protocol):
    """The logs of trials, by trial id. All methods are thread-safe."""

    def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        size: int = PAGE,
    ) -> Page:
        """Return the log records that follow a cursor, reading at most `size` stored bytes."""

    def tail(
        self, trial_id: int, lines: int, stream: str | None = None, whose: LogSelection = WHOLE_LOG
    ) -> Page:
        """Return the last `lines` lines of a trial's log."""

    def search(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        limit: int = HITS,
        is_followed: bool = False,
        time: Slice | None = None,
    ) -> Page:
        """Return up to `limit` lines of a trial's log that match a pattern and follow a cursor.

        Stop early when `time` is over.
        """

    def count(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        time: Slice | None = None,
    ) -> tuple[int, str, bool]:
        """Count the lines of a trial's log that match a pattern and follow a cursor.

        Stop early when `time` is over. Return the count, the cursor after the searched lines, and
        whether more lines follow.
        """

    def last_lines(self, trial_id: int, replica: ReplicaId) -> tuple[str, ...]:
        """Return a failed attempt's last lines as a terminal would show them."""

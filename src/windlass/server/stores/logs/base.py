"""The protocol of a log store: the output of trials, in the order of time.

A cursor is a text that `LogStore` returns and accepts. It stays valid as logs grow.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

import msgspec

from windlass.model.logs import LogPart
from windlass.model.status import ReplicaId
from windlass.server.stores.logs.cursors import Key
from windlass.server.stores.logs.pattern import Pattern

PAGE = 256 * 1024  # bytes of segments per page
HITS = 1000  # matching lines that a page of a search holds


class Window(NamedTuple):
    """A period of time in seconds since the epoch. None leaves an end open."""

    since: float | None = None
    until: float | None = None


ANY_TIME = Window()


class LogSelection(msgspec.Struct, frozen=True):
    """A selection of the replicas, attempts and times of a log. None selects all."""

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
    """A part of a log, the cursor after it, and whether the log already has more."""

    parts: list[LogPart]
    cursor: str
    has_more: bool


class Slice:
    """The time that one page of a search may take. The page then ends with a cursor."""

    def __init__(self, seconds: float = 0.25) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end


class LogStore(Protocol):
    """Logs by the id of their trial. All methods may be called from any thread."""

    def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: LogSelection = WHOLE_LOG,
        *,
        size: int = PAGE,
    ) -> Page:
        """The records after the cursor, up to a number of stored bytes."""

    def tail(
        self, trial_id: int, lines: int, stream: str | None = None, whose: LogSelection = WHOLE_LOG
    ) -> Page:
        """The last lines."""

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
        """Matching lines after the cursor: `limit` of them, or fewer when the time is over."""

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
        """The number of matching lines after the cursor, the cursor after the lines that were
        searched, and whether the log has more."""

    def last_lines(self, trial_id: int, replica: ReplicaId) -> tuple[str, ...]:
        """The last lines of one attempt, as a terminal showed them, for the error of a failure."""

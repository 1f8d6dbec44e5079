"""The logs of trials, read from the segments their supervisors write."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec

from windlass.runtimes import layout
from windlass.server.cursors import Key, format_cursor, parse_cursor
from windlass.server.merging import (
    HITS,
    PAGE,
    Page,
    Search,
    Segment,
    Slice,
    Window,
    count_matches,
    find_unread,
    part_of,
    read_merged,
    read_one,
    search_merged,
    tail_merged,
)
from windlass.server.patterns import Pattern
from windlass.worker import reading

_LAST_WORDS = 20  # lines that are kept of a failure
_MOST_OF_LAST_WORDS = 512 * 1024  # bytes that are searched for them
_LONGEST_WORDS = 2000  # characters of each


class Chosen(msgspec.Struct, frozen=True):
    """Whose log is asked for, and of which time; what is none is everybody's, of any time."""

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


EVERYBODY = Chosen()


class LogStore:
    """Logs by trial id."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def segments(self, trial_id: int, whose: Chosen = EVERYBODY) -> list[Segment]:
        """The segments of a trial, by role, index and attempt."""
        return [
            Segment((replica.role, replica.index, replica.attempt), str(path / layout.LOG))
            for replica, path in layout.attempts(self._home, trial_id)
            if whose.holds((replica.role, replica.index, replica.attempt))
            and _is_log(path / layout.LOG)
        ]

    def read(
        self,
        trial_id: int,
        cursor: str | None,
        stream: str | None = None,
        whose: Chosen = EVERYBODY,
        *,
        size: int = PAGE,
    ) -> Page:
        """What was written after the cursor, up to a fair size."""
        places = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), places, whose.window)
        if len(unread) > 1:
            return read_merged(unread, places, stream, size)
        if not unread:
            return Page([], format_cursor(places), False)
        # One segment needs no order, and most trials have only one.
        records, after = read_one(unread[0], size)
        key = unread[0].segment.key
        parts = [part_of(key, each) for each in records if stream in (None, each[1])]
        has_more = unread[0].start < after < unread[0].end
        places[key] = after
        return Page(parts, format_cursor(places), has_more)

    def tail(
        self, trial_id: int, lines: int, stream: str | None = None, whose: Chosen = EVERYBODY
    ) -> Page:
        """The last lines."""
        return tail_merged(self.segments(trial_id, whose), lines, stream, whose.window)

    def search(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: Chosen = EVERYBODY,
        *,
        limit: int = HITS,
        is_followed: bool = False,
        time: Slice | None = None,
    ) -> Page:
        """The lines after the cursor that match: so many, or those found in a slice of time."""
        places = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), places, whose.window)
        asked = Search(pattern, stream, limit, is_followed)
        return search_merged(unread, places, asked, time or Slice())

    def count(
        self,
        trial_id: int,
        pattern: Pattern,
        cursor: str | None,
        stream: str | None = None,
        whose: Chosen = EVERYBODY,
        *,
        time: Slice | None = None,
    ) -> tuple[int, str, bool]:
        """How many lines after the cursor match, for as long as the slice of time lasts; then
        the cursor to go on from, and whether there is more to look at."""
        places = parse_cursor(cursor)
        unread = find_unread(self.segments(trial_id, whose), places, whose.window)
        return count_matches(unread, places, Search(pattern, stream), time or Slice())


def last_words(path: Path) -> tuple[str, ...]:
    """The last lines of a log as a person would have seen them: a progress bar as it last stood."""
    if not _is_log(path):
        return ()
    try:
        lines, _ = reading.tail(str(path), _LAST_WORDS, limit=_MOST_OF_LAST_WORDS)
    except OSError:
        return ()  # a disk that cannot be read must not keep the end from being recorded
    texts = (line.text.decode("utf-8", "replace") for line in lines)
    return tuple(_shorten(text.rstrip("\r").rpartition("\r")[2]) for text in texts)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_WORDS else text[: _LONGEST_WORDS - 1] + "…"


def _is_log(path: Path) -> bool:
    """Whether a log is or may come to be there; a trial could have put a pipe in its place."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True

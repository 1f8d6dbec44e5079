"""The logs of trials, read from the segments their supervisors write.

A cursor names how far each segment was read: `main-0.1:4096` for one attempt, joined
by commas for several. It stays good for ever, since segments only grow.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.model.wire import LogPart
from windlass.runtimes import layout
from windlass.worker import reading
from windlass.worker.segment import read_parts

_CHUNK = 256 * 1024
_HITS = 1000  # that a page of a search holds of each segment
_LAST_WORDS = 20  # lines that are kept of a failure
_MOST_OF_LAST_WORDS = 4 << 20  # bytes that are searched for them
_LONGEST_WORDS = 2000  # characters of each
_PLACE = re.compile(r"([a-z][a-z0-9-]*)-(\d{1,6})\.(\d{1,9}):(\d{1,15})", re.ASCII)

Key = tuple[str, int, int]  # role, index, attempt


class Segment(NamedTuple):
    """The log of one attempt."""

    key: Key
    path: str


class Page(NamedTuple):
    """Some of a log, the cursor after it, and whether more is there already."""

    parts: list[LogPart]
    cursor: str
    has_more: bool


class LogStore:
    """Logs by trial id."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def segments(self, trial_id: int) -> list[Segment]:
        """The segments of a trial, by role, index and attempt."""
        return [
            Segment((replica.role, replica.index, replica.attempt), str(path / layout.LOG))
            for replica, path in layout.attempts(self._home, trial_id)
            if _is_log(path / layout.LOG)
        ]

    def read(self, trial_id: int, cursor: str | None, stream: str | None = None) -> Page:
        """What was written after the cursor, up to a fair size."""
        places = parse_cursor(cursor)
        parts: list[LogPart] = []
        has_more = False
        for segment in self.segments(trial_id):
            found, places[segment.key], is_cut = _read(segment, _offset(segment, places))
            parts += (part for part in found if stream in (None, part.stream))
            has_more = has_more or is_cut
        return _page(parts, places, has_more)

    def tail(self, trial_id: int, lines: int, stream: str | None = None) -> Page:
        """The last lines."""
        places: dict[Key, int] = {}
        parts: list[LogPart] = []
        for segment in self.segments(trial_id):
            found, places[segment.key] = reading.tail(segment.path, lines, stream)
            parts += (_part_of_line(segment.key, line) for line in found)
        page = _page(parts, places, False)
        return page._replace(parts=page.parts[-lines:] if lines else [])

    def search(
        self, trial_id: int, text: str, cursor: str | None, stream: str | None = None
    ) -> Page:
        """The lines after the cursor that hold a text."""
        places = parse_cursor(cursor)
        parts: list[LogPart] = []
        has_more = False
        for segment in self.segments(trial_id):
            start = _offset(segment, places)
            if not os.path.exists(segment.path):
                continue
            found, places[segment.key] = reading.search(
                segment.path, text.encode(), stream=stream, start=start, limit=_HITS
            )
            parts += (_part_of_line(segment.key, line) for line in found)
            has_more = has_more or len(found) == _HITS
        return _page(parts, places, has_more)


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

    >>> format_cursor({("main", 0, 1): 4096})
    'main-0.1:4096'
    """
    return ",".join(
        f"{role}-{index}.{attempt}:{offset}"
        for (role, index, attempt), offset in sorted(places.items())
    )


def _is_log(path: Path) -> bool:
    """Whether a log is or may come to be there; a trial could have put a pipe in its place."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        return True


def _page(parts: list[LogPart], places: dict[Key, int], has_more: bool) -> Page:
    return Page(_in_order(parts), format_cursor(places), has_more)


def _in_order(parts: list[LogPart]) -> list[LogPart]:
    """Parts of several replicas by time, those of one as they were written.

    A clock that was set back must not turn the lines of a replica around.
    """
    latest: dict[tuple[str, int], float] = {}
    keyed = []
    for part in parts:
        replica = (part.role, part.index)
        latest[replica] = max(part.time, latest.get(replica, 0.0))
        keyed.append((latest[replica], part))
    return [part for _, part in sorted(keyed, key=lambda each: each[0])]


def _offset(segment: Segment, places: dict[Key, int]) -> int:
    """Where a segment goes on: never beyond its end, whatever a cursor says."""
    try:
        return min(places.get(segment.key, 0), os.stat(segment.path).st_size)
    except FileNotFoundError:
        return 0


def _read(segment: Segment, offset: int) -> tuple[list[LogPart], int, bool]:
    """The records after an offset, the offset after them, and whether more follow."""
    try:
        with open(segment.path, "rb") as file:
            file.seek(offset)
            data = file.read(_CHUNK)
    except FileNotFoundError:
        return [], offset, False
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) == _CHUNK:
        whole = len(data)  # a hole that a crash of the machine left: no record is that long
    parts = [
        _part(segment.key, time, stream, text, ended)
        for time, stream, text, ended, _ in read_parts(data[:whole], offset)
    ]
    return parts, offset + whole, len(data) == _CHUNK


def _part_of_line(key: Key, line: reading.Line) -> LogPart:
    return _part(key, line.time, line.stream, line.text, ended=True)


def _part(key: Key, time: float, stream: str, text: bytes, ended: bool) -> LogPart:
    return LogPart(
        time=time,
        stream=stream,
        text=text.decode("utf-8", "replace"),
        end=ended,
        role=key[0],
        index=key[1],
        attempt=key[2],
    )

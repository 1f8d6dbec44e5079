"""The logs of trials, read from the segments their supervisors write.

A cursor names how far each segment was read: `main-0.1:4096` for one attempt, joined
by commas for several. It stays good for ever, since segments only grow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.wire import LogPart
from windlass.worker.segment import read_parts

_CHUNK = 256 * 1024
_SEARCH_CHUNK = 4 << 20
_PLACE = re.compile(r"([a-z][a-z0-9-]*)-(\d{1,6})\.(\d{1,9}):(\d{1,18})", re.ASCII)

Key = tuple[str, int, int]  # role, index, attempt


class Segment(NamedTuple):
    """The log of one attempt."""

    key: Key
    path: Path


class LogStore:
    """Logs by trial id."""

    def __init__(self, trials: Path) -> None:
        self._root = trials

    def segments(self, trial_id: int) -> list[Segment]:
        """The segments of a trial, in the order of their attempts."""
        found = []
        base = self._root / str(trial_id)
        for replica in _directories(base):
            role, _, index = replica.name.rpartition("-")
            if not role or not index.isdigit():
                continue
            for attempt in _directories(Path(replica.path)):
                if attempt.name.isdigit():
                    key = (role, int(index), int(attempt.name))
                    found.append(Segment(key, Path(attempt.path) / "log"))
        return sorted(found, key=lambda segment: (segment.key[2], segment.key[0], segment.key[1]))

    def read(self, trial_id: int, cursor: str | None) -> tuple[list[LogPart], str]:
        """What was written after the cursor, up to a fair size, and the cursor after it."""
        places = parse_cursor(cursor)
        parts: list[LogPart] = []
        for segment in self.segments(trial_id):
            offset = places.get(segment.key, 0)
            new, places[segment.key] = _read_segment(segment, offset)
            parts += new
        parts.sort(key=lambda part: part.time)
        return parts, format_cursor(places)

    def page(
        self,
        trial_id: int,
        cursor: str | None,
        tail: int | None,
        search: str | None,
        stream: str | None,
    ) -> tuple[list[LogPart], str, bool]:
        """A page of what matches, the cursor after it, and whether more is there already."""
        if tail is not None and search is None:
            parts, after = self.tail(trial_id, tail, stream)
            return parts, after, False
        places = parse_cursor(cursor)
        parts = []
        more = True
        while more and not (parts and tail is None):
            more = False
            for segment in self.segments(trial_id):
                new, places[segment.key], left = _scan_segment(
                    segment, places.get(segment.key, 0), search, stream
                )
                parts += new
                more = more or left
        parts.sort(key=lambda part: part.time)
        return parts if tail is None else parts[-tail:], format_cursor(places), more

    def check_cursor(self, cursor: str) -> None:
        """Refuse a cursor that this store never gave out."""
        parse_cursor(cursor)

    def tail(self, trial_id: int, lines: int, stream: str | None) -> tuple[list[LogPart], str]:
        """The last lines, and the cursor at the end."""
        places: dict[Key, int] = {}
        parts: list[LogPart] = []
        for segment in self.segments(trial_id):
            new, places[segment.key] = _tail_segment(segment, lines, stream)
            parts += new
        parts.sort(key=lambda part: part.time)
        return _last_lines(parts, lines), format_cursor(places)


def parse_cursor(cursor: str | None) -> dict[Key, int]:
    """Where each segment goes on.

    >>> parse_cursor("main-0.1:4096")
    {('main', 0, 1): 4096}
    """
    places: dict[Key, int] = {}
    for place in (cursor or "").split(",") if cursor else ():
        match = _PLACE.fullmatch(place)
        if match is None:
            raise InvalidArgument(
                "The cursor is not one this log gave out.", hint="Start again without a cursor."
            )
        places[(match[1], int(match[2]), int(match[3]))] = int(match[4])
    return places


def format_cursor(places: dict[Key, int]) -> str:
    """The cursor that `parse_cursor` reads."""
    return ",".join(
        f"{role}-{index}.{attempt}:{offset}"
        for (role, index, attempt), offset in sorted(places.items())
    )


def part_of(key: Key, time: float, stream: str, text: bytes, ended: bool) -> LogPart:
    """A record as it travels."""
    return LogPart(
        time=time,
        stream=stream,
        text=text.decode("utf-8", "replace"),
        end=ended,
        role=key[0],
        index=key[1],
        attempt=key[2],
    )


def _directories(path: Path) -> Iterable[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _read_segment(segment: Segment, offset: int) -> tuple[list[LogPart], int]:
    try:
        with segment.path.open("rb") as file:
            file.seek(offset)
            data = file.read(_CHUNK)
    except FileNotFoundError:
        return [], offset
    parts = [
        part_of(segment.key, time, stream, text, ended)
        for time, stream, text, ended, _ in read_parts(data, offset)
    ]
    return parts, offset + data.rfind(b"\n") + 1


def _scan_segment(
    segment: Segment, offset: int, search: str | None, stream: str | None
) -> tuple[list[LogPart], int, bool]:
    """What matches in the next piece, where it ends, and whether there is more behind it.

    A piece without the text in it is passed over at the speed of memory.
    """
    wanted = search.encode() if search is not None else None
    size = _SEARCH_CHUNK if wanted is not None else _CHUNK
    try:
        with segment.path.open("rb") as file:
            file.seek(offset)
            data = file.read(size)
    except FileNotFoundError:
        return [], offset, False
    whole = data.rfind(b"\n") + 1
    after, more = offset + whole, len(data) == size
    if wanted is not None and wanted not in data:
        return [], after, more
    parts = [
        part_of(segment.key, time, name, text, ended)
        for time, name, text, ended, _ in read_parts(data[:whole], offset)
        if stream in (None, name)
    ]
    if search is not None:
        parts = [line for line in _whole_lines(parts) if search in line.text]
    return parts, after, more


def _whole_lines(parts: Iterable[LogPart]) -> Iterator[LogPart]:
    """Lines put together of their parts, so that a text is found across them."""
    begun: dict[str, LogPart] = {}
    for part in parts:
        before = begun.pop(part.stream, None)
        if before is not None:
            part = msgspec.structs.replace(before, text=before.text + part.text, end=part.end)
        if part.end:
            yield part
        else:
            begun[part.stream] = part
    for part in begun.values():
        yield msgspec.structs.replace(part, end=True)


def _tail_segment(segment: Segment, lines: int, stream: str | None) -> tuple[list[LogPart], int]:
    """Read blocks from the end until there are enough lines."""
    try:
        with segment.path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            start, data = size, b""
            parts: list[LogPart] = []
            while start > 0:
                step = min(_CHUNK, start)
                start -= step
                file.seek(start)
                data = file.read(step) + data
                first = 0 if start == 0 else data.find(b"\n") + 1
                parts = [
                    part_of(segment.key, time, name, text, ended)
                    for time, name, text, ended, _ in read_parts(data[first:])
                    if stream in (None, name)
                ]
                if sum(part.end for part in parts) > lines:
                    break
            return parts, start + data.rfind(b"\n") + 1
    except FileNotFoundError:
        return [], 0


def _last_lines(parts: list[LogPart], lines: int) -> list[LogPart]:
    """The parts that make the last lines; one that has not ended yet counts as a line."""
    if lines <= 0:
        return []
    seen = 0
    open_at_end = {(part.role, part.index, part.attempt, part.stream): part.end for part in parts}
    seen = sum(not ended for ended in open_at_end.values())
    for position in range(len(parts) - 1, -1, -1):
        if parts[position].end:
            seen += 1
            if seen > lines:
                return parts[position + 1 :]
    return parts

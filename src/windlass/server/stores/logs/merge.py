"""Merge several log segments in the order of time.

The segments of one replica follow each other, attempt after attempt, in the order in which they
were written, even if a clock was set back. Among several replicas, the replica with the oldest
record comes next. The merge reads the next chunk of a segment when the previous chunk is used up.
So no record comes out before an older unread record, and memory holds only a little of each
segment.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

from windlass.model.logs import LogPart
from windlass.server.stores.logs.base import ANY_TIME, HITS, PAGE, Page, Slice, Window
from windlass.server.stores.logs.cursors import Key, Positions, format_cursor, newest_attempts
from windlass.server.stores.logs.pattern import Pattern
from windlass.server.stores.logs.segment_search import SegmentSearch
from windlass.worker.common.file_reads import regular_only
from windlass.worker.logs import segment_reader
from windlass.worker.logs.segment import HEADER_WIDTH, TEXT_LIMIT, read_parts

_PAUSE = ""  # in place of a stream: the search paused
_LEAST = 4096  # bytes of a segment per read
_LONGEST_RECORD = TEXT_LIMIT + HEADER_WIDTH + 1

Part = tuple[
    float, str, bytes, bool, int
]  # time, stream, text, whether the line ended, position after it
Item = tuple[float, int, Key, Part]  # time, replica number, key, record


class Segment(NamedTuple):
    """The log of one attempt."""

    key: Key
    path: str


class UnreadSegment(NamedTuple):
    """The unread part of a segment."""

    segment: Segment
    start: int
    end: int


def find_unread(
    segments: Iterable[Segment], positions: Positions, window: Window = ANY_TIME
) -> list[UnreadSegment]:
    """The segments with something after their places; a place beyond the end is put right."""
    newest = newest_attempts(positions)
    unread = []
    for segment in segments:
        role, index, attempt = segment.key
        if segment.key not in positions and newest.get((role, index), 0) > attempt:
            continue  # read to its end before the next attempt was begun
        try:
            first, end = bounds(segment.path, window)
        except FileNotFoundError:
            continue
        start = min(max(positions.get(segment.key, 0), first), end)
        if segment.key in positions:
            positions[segment.key] = start
        if start < end or segment.key in positions.back:
            unread.append(UnreadSegment(segment, start, end))
    return unread


def bounds(path: str, window: Window) -> tuple[int, int]:
    """The piece of a segment that was written within a window."""
    end = os.stat(path).st_size
    first = 0 if window.since is None else segment_reader.first_since(path, window.since)
    if window.until is not None:
        end = segment_reader.first_since(path, window.until)
    return min(first, end), end


def read_one(unread: UnreadSegment, size: int) -> tuple[list[Part], int]:
    """Records of one segment up to a size, and the place after them."""
    return _records(unread.segment.path, unread.start, unread.end, size)


def read_merged(
    unread: list[UnreadSegment], positions: dict[Key, int], stream: str | None, size: int = PAGE
) -> Page:
    """The records of several segments up to a size, in order."""
    chunk = max(2 * size // len(unread), min(size, _LEAST))
    ends: dict[Key, int] = {}

    def records(log: UnreadSegment) -> Iterator[Part]:
        at = log.start
        while at < log.end:
            chunk_parts, after = _records(log.segment.path, at, log.end, chunk)
            if after == at:
                return  # the rest is an incomplete record
            yield from chunk_parts
            at = ends[log.segment.key] = after

    parts: list[LogPart] = []
    used = 0
    for _, _, key, record in _merge(unread, records):
        used += record[4] - positions.get(key, 0)
        positions[key] = record[4]
        if stream in (None, record[1]):
            parts.append(to_log_part(key, record))
        if used >= size:
            return Page(parts, format_cursor(positions), True)
    positions |= ends
    return Page(parts, format_cursor(positions), False)


class Search(NamedTuple):
    """A search pattern with its stream and the size of a page."""

    pattern: Pattern
    stream: str | None = None
    limit: int = HITS
    is_followed: bool = False  # a line that has not ended may yet do so: it is waited for


def search_merged(
    unread: list[UnreadSegment], positions: Positions, query: Search, time: Slice
) -> Page:
    """The lines of several segments that match, in order, up to a number or for some time."""
    searches: dict[Key, SegmentSearch] = {}

    def lines(log: UnreadSegment) -> Iterator[Part]:
        search = searches[log.segment.key] = begin_search(log, unread, positions, query)
        for line in search:
            if line is not None:
                yield _as_part(line)
            elif time.is_over:
                yield search.time_reached(), _PAUSE, b"", True, 0

    parts: list[LogPart] = []
    has_more = False
    for _, _, key, line in _merge(unread, lines):
        if line[1] == _PAUSE:
            has_more = True
            break
        parts.append(to_log_part(key, line))
        others = searches[key].mark_returned(line[4])
        parts += [to_log_part(key, _as_part(other)) for other in others]
        if len(parts) >= query.limit:
            has_more = True
            break
    return Page(parts, _cursor_after(positions, searches), has_more)


def count_matches(
    unread: list[UnreadSegment], positions: Positions, query: Search, time: Slice
) -> tuple[int, str, bool]:
    """Count matching lines; also the cursor after the searched part, and whether more follows."""
    searches: dict[Key, SegmentSearch] = {}
    count = 0
    for log in unread:
        search = searches[log.segment.key] = begin_search(log, unread, positions, query)
        for line in search:
            if line is not None:
                count += 1 + len(search.mark_returned(line.end))
            elif time.is_over:
                return count, _cursor_after(positions, searches), True
    return count, _cursor_after(positions, searches), False


def begin_search(
    log: UnreadSegment, unread: list[UnreadSegment], positions: Positions, query: Search
) -> SegmentSearch:
    key = log.segment.key
    is_last = all(other.segment.key <= key for other in unread if other.segment.key[:2] == key[:2])
    return SegmentSearch(
        log.segment.path,
        query.pattern,
        stream=query.stream,
        position=log.start,
        back=min(positions.back.get(key, 0), log.start),
        end=log.end,
        tells_unended=not (query.is_followed and is_last),
    )


def _cursor_after(positions: Positions, searches: Mapping[Key, SegmentSearch]) -> str:
    back = dict(positions.back)
    for key, search in searches.items():
        positions[key], back[key] = search.resume_at()
    return format_cursor(positions, back)


def tail_merged(
    segments: list[Segment], count: int, stream: str | None, window: Window = ANY_TIME
) -> Page:
    """The last lines of several segments, in order."""
    positions: dict[Key, int] = {}
    last: list[Item] = []
    for number, (_, attempts) in enumerate(groupby(segments, _replica)):
        keyed_lines: list[tuple[Key, Part]] = []
        for segment in reversed(list(attempts)):
            wanted = count - len(keyed_lines)
            try:
                first, end = bounds(segment.path, window)
            except FileNotFoundError:
                first = end = 0
            lines, positions[segment.key] = segment_reader.tail(
                segment.path, wanted, stream, first_byte=first, end_byte=end
            )
            keyed_lines[:0] = [(segment.key, _as_part(line)) for line in lines]
            if len(keyed_lines) >= count:
                break
        merged = heapq.merge(last, _in_turn(number, keyed_lines))
        last = list(merged)[-count:] if count else []
    parts = [to_log_part(key, line) for _, _, key, line in last]
    return Page(parts, format_cursor(positions), False)


def to_log_part(key: Key, record: Part) -> LogPart:
    """Convert a record to the form that clients receive."""
    time, stream, text, ended, _ = record
    return LogPart(
        time=time,
        stream=stream,
        text=text.decode("utf-8", "replace"),
        end=ended,
        role=key[0],
        index=key[1],
        attempt=key[2],
    )


def _as_part(line: segment_reader.SegmentLine) -> Part:
    """Return a line as one part, whether or not it has ended."""
    return line.time, line.stream, line.text, True, line.end


def _merge(
    unread: list[UnreadSegment], read: Callable[[UnreadSegment], Iterator[Part]]
) -> Iterator[Item]:
    def source(number: int, attempts: list[UnreadSegment]) -> Iterator[Item]:
        records = ((log.segment.key, record) for log in attempts for record in read(log))
        return _in_turn(number, records)

    replicas = groupby(unread, lambda log: _replica(log.segment))
    return heapq.merge(*(source(n, list(attempts)) for n, (_, attempts) in enumerate(replicas)))


def _in_turn(number: int, records: Iterable[tuple[Key, Part]]) -> Iterator[Item]:
    """The records of a replica, none of them earlier than the one before it."""
    latest = 0.0
    for key, record in records:
        latest = max(latest, record[0])
        yield latest, number, key, record


def _replica(segment: Segment) -> tuple[str, int]:
    return segment.key[:2]


def _records(path: str, start: int, end: int, size: int) -> tuple[list[Part], int]:
    """The complete records of a piece of a segment, and the position after them."""
    try:
        with open(path, "rb", buffering=0, opener=regular_only) as file:
            file.seek(start)
            data = file.read(min(size, end - start))
            if b"\n" not in data and len(data) < _LONGEST_RECORD:
                data += file.read(min(_LONGEST_RECORD, end - start) - len(data))
    except FileNotFoundError:
        return [], start
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) >= _LONGEST_RECORD:
        whole = len(data)  # a hole that a crash of the machine left: no record is that long
    return read_parts(data[:whole], start), start + whole

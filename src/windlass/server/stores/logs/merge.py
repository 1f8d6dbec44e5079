"""Merges log segments in chronological order. A segment is one attempt's log file.

A replica's segments follow each other in the order in which they were written, even if a clock was
set back. Among several replicas, the oldest record comes next. The merge reads a segment's next
chunk when its previous chunk is used up. No record is therefore returned before an older unread
record, and memory holds only a small part of each segment.
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

_PAUSE = ""  # a value in place of a stream name, which means that the search paused
_LEAST = 4096  # the fewest bytes to read from a segment at once
_LONGEST_RECORD = TEXT_LIMIT + HEADER_WIDTH + 1

Part = tuple[
    float, str, bytes, bool, int
]  # time, stream, text, whether the line ended, the position after the record
Item = tuple[float, int, Key, Part]  # time, replica number, key, record


class Segment(NamedTuple):
    """The log file of one attempt."""

    key: Key
    path: str


class UnreadSegment(NamedTuple):
    """The unread part of a log segment."""

    segment: Segment
    start: int
    end: int


def find_unread(
    segments: Iterable[Segment], positions: Positions, window: Window = ANY_TIME
) -> list[UnreadSegment]:
    """Return the log segments that contain unread data.

    Positions beyond the end of a file are corrected.
    """
    newest = newest_attempts(positions)
    unread = []
    for segment in segments:
        role, index, attempt = segment.key
        if segment.key not in positions and newest.get((role, index), 0) > attempt:
            continue  # the segment was read to its end before the next attempt's
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
    """Return the start and end of the part of a log segment written in a time window."""
    end = os.stat(path).st_size
    first = 0 if window.since is None else segment_reader.first_since(path, window.since)
    if window.until is not None:
        end = segment_reader.first_since(path, window.until)
    return min(first, end), end


def read_one(unread: UnreadSegment, size: int) -> tuple[list[Part], int]:
    """Return at most `size` bytes of records from a log segment, and the position after them."""
    return _records(unread.segment.path, unread.start, unread.end, size)


def read_merged(
    unread: list[UnreadSegment], positions: dict[Key, int], stream: str | None, size: int = PAGE
) -> Page:
    """Return at most `size` bytes of records from several segments, in chronological order."""
    chunk = max(2 * size // len(unread), min(size, _LEAST))
    ends: dict[Key, int] = {}

    def records(log: UnreadSegment) -> Iterator[Part]:
        at = log.start
        while at < log.end:
            chunk_parts, after = _records(log.segment.path, at, log.end, chunk)
            if after == at:
                return  # only an incomplete record is left
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
    """The parameters of a search: a pattern, a stream, and the size of a page."""

    pattern: Pattern
    stream: str | None = None
    limit: int = HITS
    # Whether to search an unfinished last line only once it is complete.
    is_followed: bool = False


def search_merged(
    unread: list[UnreadSegment], positions: Positions, query: Search, time: Slice
) -> Page:
    """Return the lines of several log segments that match a query, in chronological order.

    The page ends after `query.limit` matching lines or when `time` is over.
    """
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
    """Count the lines of several log segments that match a query.

    Also return the cursor after the searched part and whether more lines follow.
    """
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
    """Return the last `count` lines of several log segments, in chronological order."""
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
    """Convert a record to the type that clients receive."""
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
    """Convert a line that was joined from records to a single log record.

    An unfinished line also becomes a record that ends its line.
    """
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
    """Yield a replica's log records, each with a time to sort by, in the order of writing.

    A record that is older than its predecessor is sorted by its predecessor's time.
    """
    latest = 0.0
    for key, record in records:
        latest = max(latest, record[0])
        yield latest, number, key, record


def _replica(segment: Segment) -> tuple[str, int]:
    return segment.key[:2]


def _records(path: str, start: int, end: int, size: int) -> tuple[list[Part], int]:
    """Read a piece of at most `size` bytes from a log segment, between two positions.

    Return the complete records in the piece and the position after these records.
    """
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
        # No record is that long, so a machine crash has left a hole in the file here.
        whole = len(data)
    return read_parts(data[:whole], start), start + whole

"""Reads log segments from their end or from a given time on, and joins records into lines."""

from __future__ import annotations

import os
from typing import NamedTuple

from windlass.worker.common.file_reads import regular_only
from windlass.worker.logs.segment import (
    HEADER_WIDTH,
    TEXT_LIMIT,
    TIME_WIDTH,
    has_header,
    read_parts,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from windlass.worker.logs.segment import Part

_TAIL_BLOCK = 256 * 1024
_LINE_LIMIT = 1024 * 1024  # bytes to keep of a joined line
_SEARCHED = 4096  # bytes in which to search for the start of a record
_LONGEST_RECORD = TEXT_LIMIT + HEADER_WIDTH + 1


class SegmentLine(NamedTuple):
    """A log line as the program wrote it, which can be stored as several records."""

    time: float
    stream: str
    text: bytes
    ended: bool
    start: int  # its first record's offset
    end: int  # the offset after its last record


def join_lines(parts: Iterable[Part]) -> list[SegmentLine]:
    """Join records into lines, ordered by where the lines start.

    >>> data = b"0000000001.000000\\x1dO 10%\\n0000000002.000000:e oh\\n0000000003.000000:o 20%\\n"
    >>> [(line.stream, line.text) for line in join_lines(read_parts(data))]
    [('stdout', b'10%20%'), ('stderr', b'oh')]
    """
    done: list[SegmentLine] = []
    begun: dict[str, UnfinishedLine] = {}
    for part in parts:
        line = go_on(begun, part)
        if line is not None:
            done.append(line)
    unended = [line.joined() for line in begun.values()]
    return sorted([*done, *unended], key=lambda line: line.start)


def go_on(begun: dict[str, UnfinishedLine], part: Part) -> SegmentLine | None:
    """Add a record to the unfinished lines. Return the line that it completes, or None."""
    time, stream, text, ended, end = part
    line = begun.get(stream)
    if line is None:
        start = end - len(text) - HEADER_WIDTH - 1
        if ended:
            return SegmentLine(time, stream, text, ended, start, end)
        line = begun[stream] = UnfinishedLine(time, stream, start)
    line.add(text, end)
    return begun.pop(stream).joined(ended=True) if ended else None


class UnfinishedLine:
    """A line that has not ended yet. Its pieces are joined only once, when it ends.

    This matters because a progress bar may consist of a million pieces.
    """

    def __init__(self, time: float, stream: str, start: int) -> None:
        self._time = time
        self._stream = stream
        self.start = start
        self._end = start
        self._pieces: list[bytes] = []
        self._left = _LINE_LIMIT

    def add(self, text: bytes, end: int) -> None:
        self._end = end
        if self._left:
            self._pieces.append(text[: self._left])
            self._left -= len(self._pieces[-1])

    def joined(self, *, ended: bool = False) -> SegmentLine:
        text = b"".join(self._pieces)
        return SegmentLine(self._time, self._stream, text, ended, self.start, self._end)


def tail(
    path: str,
    count: int,
    stream: str | None = None,
    *,
    limit: int | None = None,
    first_byte: int = 0,
    end_byte: int | None = None,
) -> tuple[list[SegmentLine], int]:
    """Return the last lines in a segment, or in part of it, and the offset at their end.

    Only the blocks with these lines are read, so a line that started long before may lack its
    beginning. At most `limit` bytes are read, so there may be fewer lines than requested.
    """
    try:
        fd = regular_only(path, os.O_RDONLY)
    except FileNotFoundError:
        return [], 0
    try:
        start = os.fstat(fd).st_size if end_byte is None else end_byte
        last_look = first_byte if limit is None else max(first_byte, start - limit)
        end = ended = 0
        blocks: list[list[Part]] = []  # in reverse order
        # Read one line more than requested, because the first one may lack its beginning.
        while start > last_look and (ended <= count if count else not end):
            begin = max(first_byte, start - _TAIL_BLOCK)
            block = os.pread(fd, start - begin, begin)
            whole = block.rfind(b"\n") + 1
            end = end or (begin + whole if whole else 0)
            # Text before the first newline belongs to a record in the previous block. A block
            # without a newline contains no complete record, because records are never that long.
            is_inside = begin > first_byte
            first = block.find(b"\n", 0, len(block) - 1) + 1 if is_inside else 0
            start = begin + first
            if first or not is_inside:
                parts = read_parts(block[first:], start)
                blocks.append([part for part in parts if stream in (None, part[1])])
                ended += sum(part[3] for part in blocks[-1])
        lines = join_lines(part for parts in reversed(blocks) for part in parts)
        return lines[-count:] if count else [], end or first_byte
    finally:
        os.close(fd)


def first_since(path: str, when: float) -> int:
    """Return the offset of the first record at or after a time, or else the segment's end.

    Bisection requires reading at only a few dozen positions, even in a large segment.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"0000000001.000000:o a\\n0000000002.000000:o b\\n")
    ...     file.flush()
    ...     first_since(file.name, 1.5), first_since(file.name, 9.0)
    (22, 44)
    """
    with open(path, "rb", buffering=0, opener=regular_only) as file:
        low, high = 0, os.fstat(file.fileno()).st_size
        offset = high
        while low < high:
            middle = (low + high) // 2
            record = _next_record(file.fileno(), middle, high)
            if record is not None and record[1] < when:
                low = record[0] + HEADER_WIDTH
                continue
            # no record starts between this position and the record just read
            high = middle
            if record is not None:
                offset = record[0]
        return offset


def _next_record(fd: int, start: int, end: int) -> tuple[int, float] | None:
    """Return the offset and time of the first log record that starts between two positions."""
    at = max(start - 1, 0)
    # otherwise, text before the first newline belongs to an earlier record
    is_begin = start == 0
    while at < end:
        data = os.pread(fd, _SEARCHED if at == max(start - 1, 0) else _LONGEST_RECORD, at)
        if not data:
            return None
        skipped = 0 if is_begin else data.find(b"\n") + 1
        if not is_begin and not skipped:
            at += len(data)
            continue
        header = os.pread(fd, HEADER_WIDTH, at + skipped)
        if at + skipped >= end or len(header) < HEADER_WIDTH:
            return None
        if has_header(header):
            return at + skipped, float(header[:TIME_WIDTH])
        at, is_begin = at + skipped, False  # skip data that a machine's crash damaged
    return None

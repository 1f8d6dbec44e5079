"""Searches a segment, which is one attempt's log file, for matching lines.

The search reads large blocks and never loops over lines that do not match. It determines the record
and the line only for matches.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from windlass.server.stores.logs.pattern import Pattern
from windlass.worker.common.file_reads import regular_only
from windlass.worker.logs.segment import HEADER_WIDTH, MARK, STDERR, STDOUT, TIME_WIDTH, read_parts
from windlass.worker.logs.segment_reader import SegmentLine, UnfinishedLine, go_on, join_lines

# Time, stream, text, whether the line ended, the position after the record.
Part = tuple[float, str, bytes, bool, int]

_FIRST_BLOCK = 128 * 1024  # small, because the first page of matches is often soon full
_BLOCK = 1024 * 1024
_FARTHEST_BACK = 1024 * 1024  # the most bytes to go back for the start of an unreturned line

_HEADER = re.compile(rb"\d{10}\.\d{6}[:\x1d][oeOE] ")
_NEWLINE = 10
_ENDED = {STDOUT: b":o ", STDERR: b":e "}


class SegmentSearch:
    """Iterates over the matching lines in a part of a log segment, in the order of their ends.

    The search may stop anywhere and resume at `resume_at`, which is a position and a distance. All
    lines that end before the position were returned. The distance leads back from the position to
    the start of a line that was not returned yet.
    """

    def __init__(
        self,
        path: str,
        pattern: Pattern,
        *,
        stream: str | None = None,
        position: int = 0,
        back: int = 0,
        end: int | None = None,
        tells_unended: bool = True,
    ) -> None:
        self._path = path
        self._pattern = pattern
        self._stream = stream
        self._position = position  # all lines that end before this position were returned
        self._start = position - back
        self._end = end
        self._tells_unended = tells_unended
        self._scanned = position
        # Lines that end in a later block, by stream.
        self._begun: dict[str, UnfinishedLine] = {}
        # The start and end of those lines in the current block that consist of several records.
        self._spans: list[tuple[int, float]] = []
        self._pending: SegmentLine | None = None
        self.rest: list[SegmentLine] = []  # the unfinished lines at the end of the segment

    def __iter__(self) -> Iterator[SegmentLine | None]:
        """Yield the log lines that match, and None after each block so that the caller can stop."""
        with open(self._path, "rb", buffering=0, opener=regular_only) as file:
            for block in _blocks(file.fileno(), self._start, self._end):
                yield from self._tell(self._search_block(block))
                is_new = block.offset + block.length > self._scanned
                self._scanned = max(self._scanned, block.offset + block.length)
                if is_new:  # searching a block again is not progress
                    yield None
        if self._tells_unended:
            unended = [line.joined() for line in self._begun.values()]
            self.rest = sorted(
                (line for line in unended if self._wants(line)), key=lambda line: line.end
            )
            self._begun = {}
            if self.rest:
                yield self.rest[0]

    def mark_returned(self, end: int) -> list[SegmentLine]:
        """Record that the latest yielded line, which ends at `end`, was returned to the client.

        Returns any unfinished lines of other streams, which must be returned together with that
        line.
        """
        self._position = max(self._position, end)
        self._pending = None
        # Each stream has at most one unfinished line. They are returned together, so that one
        # cursor is enough.
        rest, self.rest = self.rest[1:], []
        return rest

    def time_reached(self) -> float:
        """Return the time of the next log record to search, or infinity if there is none."""
        with open(self._path, "rb", buffering=0, opener=regular_only) as file:
            header = os.pread(file.fileno(), HEADER_WIDTH, self._scanned)
        return float(header[:TIME_WIDTH]) if _HEADER.match(header) else math.inf

    def resume_at(self) -> tuple[int, int]:
        """Return the position at which to resume the search.

        The second element is how far before this position the first unreturned line starts.
        """
        position = max(self._position, self._scanned)
        if self._pending is not None:
            position = max(position, self._pending.start)
        starts = [start for start, end in self._spans if start < position < end]
        starts += [line.start for line in self._begun.values()]
        starts += [line.start for line in self.rest]
        first = min((start for start in starts if start < position), default=position)
        return position, min(position - first, _FARTHEST_BACK)

    def _wants(self, line: SegmentLine) -> bool:
        return self._stream in (None, line.stream) and self._pattern.matches(line.text)

    def _tell(self, lines: list[SegmentLine]) -> Iterator[SegmentLine]:
        for line in lines:
            if self._stream in (None, line.stream) and line.end > self._position:
                self._pending = line
                yield line

    def _search_block(self, block: _Block) -> list[SegmentLine]:
        """Return the matching lines that end in this block, in the order of their ends."""
        lines: list[SegmentLine] = []
        # Records that are only a piece of a line, because matches count only for whole lines.
        pieces: set[int] = set()
        self._spans = []
        is_split = block.next_tagged((MARK,), 0, block.length) < block.length
        if is_split or self._begun:
            for line in self._split_lines(block, pieces):
                self._spans.append((line.start, line.end))
                if self._pattern.matches(line.text):
                    lines.append(line)
        for record in self._pattern.records(block.data, block.length):
            if record not in pieces:
                lines += join_lines(block.parts_at(record)[1])
        return sorted(lines, key=lambda line: line.end) if pieces else lines

    def _split_lines(self, block: _Block, pieces: set[int]) -> Iterator[SegmentLine]:
        """Yield the lines that consist of several records and that end in this block."""
        at = 0
        while (record := self._next_piece(block, at)) < block.length:
            at, parts = block.parts_at(record)
            for part in parts:
                if not part[3] or part[1] in self._begun:
                    pieces.add(record)
                    line = go_on(self._begun, part)
                    if line is not None:
                        yield line

    def _next_piece(self, block: _Block, at: int) -> int:
        """Return the offset of the block's next record that is only a piece of a line."""
        following = block.next_tagged((MARK,), at, block.length)
        tags = [_ENDED[stream] for stream in self._begun]
        return block.next_tagged(tags, at, following)


class _Block(NamedTuple):
    """Whole records from a log segment, in a buffer that the next block reuses."""

    data: bytearray
    length: int
    offset: int  # the block's position in the segment

    def parts_at(self, record: int) -> tuple[int, list[Part]]:
        """Parse the record that starts at `record`. Return the offset after it and its parts."""
        end = self.data.index(b"\n", record) + 1
        return end, read_parts(bytes(self.data[record:end]), self.offset + record)

    def next_tagged(self, tags: Sequence[bytes], start: int, end: int) -> int:
        """Return the offset of the block's next record that has one of the tags, or `end`."""
        for tag in tags:
            at = start
            while (position := self.data.find(tag, at, min(end + HEADER_WIDTH, self.length))) >= 0:
                record = position - TIME_WIDTH
                is_begin = record == 0 or (record > 0 and self.data[record - 1] == _NEWLINE)
                if is_begin and start <= record < end and _HEADER.match(self.data, record):
                    end = record
                    break
                at = position + 1
        return end


def _blocks(fd: int, offset: int, end: int | None) -> Iterator[_Block]:
    """Yield a part of a log segment in large blocks, each of which ends at the end of a record."""
    end = os.fstat(fd).st_size if end is None else end
    data = bytearray(_FIRST_BLOCK)
    while offset < end:
        size = min(len(data), end - offset)
        read = os.preadv(fd, [memoryview(data)[:size]], offset)
        if not read:
            return  # the file was truncated meanwhile
        whole = data.rfind(b"\n", 0, read) + 1
        if whole:
            yield _Block(data, whole, offset)
        elif read < len(data):
            return
        # No record is as long as a block, so skip a part without records as damaged.
        offset += whole or read
        if len(data) < _BLOCK:
            data = bytearray(min(_BLOCK, end - offset) + _FIRST_BLOCK)

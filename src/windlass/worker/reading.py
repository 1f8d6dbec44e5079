"""Log segments, read: as lines joined from their records, from the end, and by what they say.

Never loops over lines that are not asked for: whole buffers are searched at once, and only
what was found is mapped to records.
"""

from __future__ import annotations

import mmap
import os
import re
from typing import NamedTuple

from windlass.worker.segment import HEADER_WIDTH, STDERR, STDOUT, read_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BLOCK = 4 * 1024 * 1024
_TAIL_BLOCK = 256 * 1024
_LINE_LIMIT = 1024 * 1024  # bytes of a joined line that are kept
_HEADER = re.compile(rb"^\d{10}\.\d{6} [oeOE] ", re.MULTILINE)
_NEXT_OF = {
    STDOUT: re.compile(rb"^\d{10}\.\d{6} [oO] ", re.MULTILINE),
    STDERR: re.compile(rb"^\d{10}\.\d{6} [eE] ", re.MULTILINE),
}


class Line(NamedTuple):
    """A line as its writer meant it, joined from the records it is in."""

    time: float
    stream: str
    text: bytes
    ended: bool
    start: int  # offset of its first record
    end: int  # offset right after its last record


def join_lines(parts: Iterable[tuple[float, str, bytes, bool, int]]) -> list[Line]:
    """The lines that records make, in the order they began.

    >>> data = b"0000000001.000000 O 10%\\n0000000002.000000 e oh\\n0000000003.000000 o 20%\\n"
    >>> [(line.stream, line.text) for line in join_lines(read_parts(data))]
    [('stdout', b'10%20%'), ('stderr', b'oh')]
    """
    done: list[Line] = []
    begun: dict[str, Line] = {}
    for time, stream, text, ended, end in parts:
        line = begun.pop(stream, None)
        if line is None:
            start = end - len(text) - HEADER_WIDTH - 1
            line = Line(time, stream, text, ended, start, end)
        else:
            room = max(0, _LINE_LIMIT - len(line.text))
            line = line._replace(text=line.text + text[:room], ended=ended, end=end)
        if ended:
            done.append(line)
        else:
            begun[stream] = line
    return sorted([*done, *begun.values()], key=lambda line: line.start)


def tail(path: str, count: int, stream: str | None = None) -> tuple[list[Line], int]:
    """The last lines of a segment, and the offset at its end, to go on from."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], 0
    try:
        size = os.fstat(fd).st_size
        start, blocks, newlines = size, [], 0
        lines: list[Line] = []
        while start > 0:
            begin = max(0, start - _TAIL_BLOCK)
            blocks.append(os.pread(fd, start - begin, begin))
            newlines += blocks[-1].count(b"\n")
            start = begin
            if start > 0 and newlines <= count:
                continue
            data = b"".join(reversed(blocks))
            # One line more than asked for: the first may lack its beginning.
            first = 0 if start == 0 else data.find(b"\n") + 1
            lines = join_lines(read_parts(data[first:], start + first))
            lines = [line for line in lines if stream in (None, line.stream)]
            if len(lines) > count:
                break
        end = start + b"".join(reversed(blocks)).rfind(b"\n") + 1 if blocks else 0
        return lines[len(lines) - count :] if len(lines) > count else lines, end
    finally:
        os.close(fd)


def search(
    path: str,
    pattern: bytes | re.Pattern[bytes],
    *,
    stream: str | None = None,
    start: int = 0,
    limit: int = 1000,
) -> tuple[list[Line], int]:
    """The lines from an offset on that hold a text or match a pattern, and where to go on.

    A pattern is matched line by line: compile it with `re.MULTILINE` if it has anchors.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size <= start:
            return [], start
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as data:
            end = data.rfind(b"\n") + 1
            split = _split_lines(data, start, end)
            found = _merged(data, pattern, split, start, end)
            lines: list[Line] = []
            for line in found:
                if stream in (None, line.stream):
                    if len(lines) == limit:
                        return lines, line.start
                    lines.append(line)
            return lines, end


def _merged(
    data: mmap.mmap, pattern: bytes | re.Pattern[bytes], split: _Split, start: int, end: int
) -> Iterator[Line]:
    """The lines that match, in order: those in one record, and those in several."""
    hits = (offset for offset in _hits(data, pattern, start, end) if offset not in split.records)
    wholes = [line for line in split.lines if _matches(line.text, pattern)]
    position = 0
    for offset in hits:
        while position < len(wholes) and wholes[position].start < offset:
            yield wholes[position]
            position += 1
        record_end = data.find(b"\n", offset) + 1
        yield from join_lines(read_parts(data[offset:record_end], offset))
    yield from wholes[position:]


def _matches(text: bytes, pattern: bytes | re.Pattern[bytes]) -> bool:
    if isinstance(pattern, bytes):
        return pattern in text
    return pattern.search(text) is not None


class _Split(NamedTuple):
    """The lines that are in several records, and where each of those records begins."""

    lines: list[Line]
    records: set[int]


def _split_lines(data: mmap.mmap, start: int, end: int) -> _Split:
    lines: list[Line] = []
    records: set[int] = set()
    for stream, tag in ((STDOUT, b" O "), (STDERR, b" E ")):
        at = start
        while (found := data.find(tag, at, end)) >= 0:
            at = found + 1
            record = found - (HEADER_WIDTH - 3)
            if record < start or record in records or not _is_record(data, record, start):
                continue
            chain = list(_chain(data, record, end, stream))
            records.update(offset for offset, _ in chain)
            parts = [part for o, e in chain for part in read_parts(data[o:e], o)]
            joined = join_lines(parts)
            lines += joined
            at = max(at, joined[-1].end if joined[-1].ended else end)
    return _Split(sorted(lines, key=lambda line: line.start), records)


def _is_record(data: mmap.mmap, offset: int, start: int) -> bool:
    if offset > start and data[offset - 1 : offset] != b"\n":
        return False
    return _HEADER.match(data, offset) is not None


def _chain(data: mmap.mmap, record: int, end: int, stream: str) -> Iterator[tuple[int, int]]:
    """The records of one line, each with its end."""
    following = _NEXT_OF[stream]
    while True:
        record_end = data.find(b"\n", record) + 1
        yield record, record_end
        if data[record + HEADER_WIDTH - 2 : record + HEADER_WIDTH - 1] in (b"o", b"e"):
            return
        match = following.search(data, record_end, end)
        if match is None:
            return
        record = match.start()


def _hits(
    data: mmap.mmap, pattern: bytes | re.Pattern[bytes], start: int, end: int
) -> Iterator[int]:
    """Where the records begin whose own text matches, each once, in order."""
    if isinstance(pattern, bytes):
        return _plain_hits(data, pattern, start, end)
    return _pattern_hits(data, pattern, start, end)


def _plain_hits(data: mmap.mmap, text: bytes, start: int, end: int) -> Iterator[int]:
    if not text or b"\n" in text:
        return
    at = start
    while (found := data.find(text, at, end)) >= 0:
        record = max(data.rfind(b"\n", start, found) + 1, start)
        if found < record + HEADER_WIDTH:
            at = found + 1  # in the time or the tag
            continue
        yield record
        at = data.find(b"\n", found) + 1


def _pattern_hits(
    data: mmap.mmap, pattern: re.Pattern[bytes], start: int, end: int
) -> Iterator[int]:
    """Searched in blocks of bare text; headers are all of one width, so places can be computed."""
    while start < end:
        stop = min(end, start + _BLOCK)
        stop = data.rfind(b"\n", start, stop) + 1 or data.find(b"\n", stop) + 1
        block = data[start:stop]
        text, headers = _HEADER.subn(b"", block)
        if headers == block.count(b"\n"):
            yield from (start + offset for offset in _block_hits(text, pattern))
        else:
            yield from _odd_block_hits(block, start, pattern)
        start = stop


def _block_hits(text: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    counted = 0  # newlines before `at`
    at = 0
    last = -1
    for match in pattern.finditer(text):
        if match.start() == len(text):
            return  # an empty match after the last line
        counted += text.count(b"\n", at, match.start())
        at = match.start()
        if counted != last:
            last = counted
            yield text.rfind(b"\n", 0, at) + 1 + counted * HEADER_WIDTH


def _odd_block_hits(block: bytes, start: int, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """A block with something in it that is no record, as a crash of the machine may leave it."""
    for _, _, text, _, end in read_parts(block, start):
        if pattern.search(text) is not None:
            yield end - len(text) - HEADER_WIDTH - 1

"""Log segments, read: as lines joined from their records, from the end, and by what they say.

Never loops over lines that are not asked for: whole buffers are searched at once, and only
what was found is mapped to records.
"""

from __future__ import annotations

import operator
import os
import re
from typing import NamedTuple

from windlass.worker.segment import HEADER_WIDTH, STDERR, STDOUT, TIME_WIDTH, read_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from windlass.worker.segment import Part

_BLOCK = 4 * 1024 * 1024
_TAIL_BLOCK = 256 * 1024
_LINE_LIMIT = 1024 * 1024  # bytes of a joined line that are kept
_HEADER = re.compile(rb"^\d{10}\.\d{6} [oeOE] ", re.MULTILINE)
_OPEN = {STDOUT: b" O ", STDERR: b" E "}
_ENDED = {STDOUT: b" o ", STDERR: b" e "}
_WITHOUT_HEADER = operator.itemgetter(slice(HEADER_WIDTH, None))


class Line(NamedTuple):
    """A line as its writer meant it, joined from the records it is in."""

    time: float
    stream: str
    text: bytes
    ended: bool
    start: int  # offset of its first record
    end: int  # offset right after its last record


def join_lines(parts: Iterable[Part]) -> list[Line]:
    """The lines that records make, in the order they began.

    >>> data = b"0000000001.000000 O 10%\\n0000000002.000000 e oh\\n0000000003.000000 o 20%\\n"
    >>> [(line.stream, line.text) for line in join_lines(read_parts(data))]
    [('stdout', b'10%20%'), ('stderr', b'oh')]
    """
    done: list[Line] = []
    begun: dict[str, _Begun] = {}
    for part in parts:
        line = _go_on(begun, part)
        if line is not None:
            done.append(line)
    unended = [line.joined() for line in begun.values()]
    return sorted([*done, *unended], key=lambda line: line.start)


def _go_on(begun: dict[str, _Begun], part: Part) -> Line | None:
    """Add a record to the lines that have begun; the line that it ends, if it ends one."""
    time, stream, text, ended, end = part
    line = begun.get(stream)
    if line is None:
        start = end - len(text) - HEADER_WIDTH - 1
        if ended:
            return Line(time, stream, text, ended, start, end)
        line = begun[stream] = _Begun(time, stream, start)
    line.add(text, end)
    return begun.pop(stream).joined(ended=True) if ended else None


class _Begun:
    """A line in pieces, joined once: a progress bar may come in a million of them."""

    def __init__(self, time: float, stream: str, start: int) -> None:
        self._time = time
        self._stream = stream
        self._start = start
        self._end = start
        self._pieces: list[bytes] = []
        self._room = _LINE_LIMIT

    def add(self, text: bytes, end: int) -> None:
        self._end = end
        if self._room:
            self._pieces.append(text[: self._room])
            self._room -= len(self._pieces[-1])

    def joined(self, *, ended: bool = False) -> Line:
        text = b"".join(self._pieces)
        return Line(self._time, self._stream, text, ended, self._start, self._end)


def tail(
    path: str, count: int, stream: str | None = None, *, limit: int | None = None
) -> tuple[list[Line], int]:
    """The last lines of a segment, and the offset at its end, to go on from.

    As much is read as these lines take: one that began long before them may lack its beginning.
    With a limit, no more bytes than that, and fewer lines if they are long.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], 0
    try:
        start = os.fstat(fd).st_size
        first_byte = 0 if limit is None else max(0, start - limit)
        end = ended = 0
        found: list[list[Part]] = []  # the last first
        # One line more than asked for: the first may lack its beginning.
        while start > first_byte and (ended <= count if count else not end):
            begin = max(0, start - _TAIL_BLOCK)
            block = os.pread(fd, start - begin, begin)
            whole = block.rfind(b"\n") + 1
            end = end or (begin + whole if whole else 0)
            # What stands before the first newline has its beginning in the block before. A
            # block that is all one piece is no record: none is that long.
            first = block.find(b"\n", 0, len(block) - 1) + 1 if begin else 0
            start = begin + first
            if first or not begin:
                parts = read_parts(block[first:], start)
                found.append([part for part in parts if stream in (None, part[1])])
                ended += sum(part[3] for part in found[-1])
        lines = join_lines(part for parts in reversed(found) for part in parts)
        return lines[-count:] if count else [], end
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

    A pattern sees many lines at once: compile it with `re.MULTILINE` if it has anchors.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(b"0000000001.000000 o loss nan\\n0000000002.000000 o loss 1\\n")
    ...     file.flush()
    ...     [line.text for line in search(file.name, b"nan")[0]]
    [b'loss nan']
    """
    found: list[Line] = []
    begun: dict[str, _Begun] = {}  # lines whose end is in a block to come
    with open(path, "rb", buffering=0) as file:
        for offset, block in _blocks(file.fileno(), start):
            for line in _search_block(block, offset, pattern, begun):
                if stream in (None, line.stream):
                    found.append(line)
                    if len(found) == limit:
                        return found, line.end
            start = offset + len(block)
    unended = [line.joined() for name, line in begun.items() if stream in (None, name)]
    found += [line for line in unended if _matches(line.text, pattern)]
    return found[:limit], start


def _blocks(fd: int, offset: int) -> Iterator[tuple[int, bytes]]:
    """A segment in large pieces that end where records end."""
    while block := os.pread(fd, _BLOCK, offset):
        whole = block.rfind(b"\n") + 1
        if whole:
            yield offset, block[:whole]
        elif len(block) < _BLOCK:
            return
        offset += whole or len(block)  # no record is as long as a block: that is none


def _search_block(
    block: bytes, offset: int, pattern: bytes | re.Pattern[bytes], begun: dict[str, _Begun]
) -> list[Line]:
    """The lines that match and end in this block, in the order of their ends."""
    split: list[Line] = []
    records: set[int] = set()  # that are pieces of lines; these count as a whole only
    for stream in (STDOUT, STDERR):
        split += _split_lines(block, offset, stream, begun, records)
    found = [line for line in split if _matches(line.text, pattern)]
    for record in _hits(block, pattern):
        if record not in records:
            end = block.index(b"\n", record) + 1
            found += join_lines(read_parts(block[record:end], offset + record))
    return sorted(found, key=lambda line: line.end)


def _matches(text: bytes, pattern: bytes | re.Pattern[bytes]) -> bool:
    return pattern in text if isinstance(pattern, bytes) else pattern.search(text) is not None


def _split_lines(
    block: bytes, offset: int, stream: str, begun: dict[str, _Begun], records: set[int]
) -> Iterator[Line]:
    """The lines of one stream that are in several records and end in this block."""
    at = 0
    while True:
        following = _find_tagged(block, _OPEN[stream], at, len(block))
        if stream in begun:
            # Whichever comes first goes on with the line.
            following = _find_tagged(block, _ENDED[stream], at, following)
        at = following
        if at == len(block):
            return
        records.add(at)
        end = block.index(b"\n", at) + 1
        [part] = read_parts(block[at:end], offset + at)
        line = _go_on(begun, part)
        if line is not None:
            yield line
        at = end


def _find_tagged(block: bytes, tag: bytes, start: int, end: int) -> int:
    """Where the next record with that tag begins; `end` if there is none before it."""
    at = start
    while (found := block.find(tag, at, end + HEADER_WIDTH)) >= 0:
        record = found - TIME_WIDTH
        if start <= record < end and _HEADER.match(block, record):
            return record
        at = found + 1
    return end


def _hits(block: bytes, pattern: bytes | re.Pattern[bytes]) -> Iterator[int]:
    """Where the records begin whose own text matches, each once, in order."""
    if isinstance(pattern, bytes):
        return _plain_hits(block, pattern)
    return _pattern_hits(block, pattern)


def _plain_hits(block: bytes, text: bytes) -> Iterator[int]:
    at = 0
    while (found := block.find(text, at)) >= 0:
        record = block.rfind(b"\n", 0, found) + 1
        if found < record + HEADER_WIDTH:
            at = found + 1  # in the time or the tag
            continue
        yield record
        at = block.index(b"\n", found) + 1


def _pattern_hits(block: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Searched without the headers; these are all of one width, so places can be computed."""
    lines = block.split(b"\n")
    text = b"\n".join(map(_WITHOUT_HEADER, lines))
    if len(text) != len(block) - HEADER_WIDTH * (len(lines) - 1):
        # Something is in it that is no record, as a crash of the machine may leave it.
        for _, _, own, _, end in read_parts(block):
            if pattern.search(own) is not None:
                yield end - len(own) - HEADER_WIDTH - 1
        return
    number = at = 0  # newlines before `at`
    last = -1
    for match in pattern.finditer(text):
        if match.start() == len(text):
            return  # an empty match after the last line
        number += text.count(b"\n", at, match.start())
        at = match.start()
        if number != last:
            last = number
            yield text.rfind(b"\n", 0, at) + 1 + number * HEADER_WIDTH

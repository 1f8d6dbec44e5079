"""Log segments: files with one record per line, such as `1763244000.123456:o the text`.

The tag after the colon is `o` for stdout or `e` for stderr. `O` and `E` mark text that does not end
in a newline and that the stream's next record continues. In these records, the character `MARK`
replaces the colon. Because this character is rare, a search for it quickly shows whether a block
contains such records.
"""

from __future__ import annotations

import errno
import os

STDOUT, STDERR = "stdout", "stderr"
TEXT_LIMIT = 64 * 1024
TIME_WIDTH = 17
HEADER_WIDTH = TIME_WIDTH + 3  # the width of time, separator, tag and space
BUFFER = 1 << 20  # bytes of records that are waiting for space on a full disk
MARK = b"\x1d"  # the separator before the tag of unfinished text

TYPE_CHECKING = False
if TYPE_CHECKING:
    Part = tuple[float, str, bytes, bool, int]

_ENDED = {STDOUT: b"o", STDERR: b"e"}
_OPEN = {STDOUT: b"O", STDERR: b"E"}
_STREAMS = {b"o": STDOUT, b"O": STDOUT, b"e": STDERR, b"E": STDERR}
_BEFORE_TAG = (b":", MARK)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def encode_lines(time: float, stream: str, lines: bytes) -> bytes:
    """Encode whole lines, which end in newlines and respect the length limit, as records.

    >>> encode_lines(1763244000.123456, STDOUT, b"a\\nb\\n")
    b'1763244000.123456:o a\\n1763244000.123456:o b\\n'
    """
    header = b"%017.6f:%b " % (time, _ENDED[stream])
    return header + lines[:-1].replace(b"\n", b"\n" + header) + b"\n"


def encode_open(time: float, stream: str, text: bytes) -> bytes:
    """Encode text that does not end in a newline as a record.

    >>> encode_open(1763244000.0, STDERR, b"50%\\r")
    b'1763244000.000000\\x1dE 50%\\r\\n'
    """
    return b"%017.6f%b%b %b\n" % (time, MARK, _OPEN[stream], text)


def read_parts(data: bytes, base_offset: int = 0) -> list[Part]:
    """Decode all complete records in a block from a segment.

    For each record, return its time, stream and text, whether the text ends its line, and the
    offset in the segment after the record.

    >>> read_parts(b"1763244000.000000:o hello\\n1763244000.500000:e to", 100)
    [(1763244000.0, 'stdout', b'hello', True, 126)]
    """
    parts = []
    offset = base_offset
    lines = data.split(b"\n")
    lines.pop()  # the text after the last newline is an incomplete record
    for line in lines:
        offset += len(line) + 1
        part = _parse(line)
        if part is not None:
            parts.append((*part, offset))
    return parts


def _parse(line: bytes) -> tuple[float, str, bytes, bool] | None:
    """Decode one log record as its time, stream and text, and whether the text ends its line.

    Return None for invalid data, which a machine's crash can leave behind.
    """
    tag = line[TIME_WIDTH + 1 : TIME_WIDTH + 2]
    stream = _STREAMS.get(tag)
    if stream is None or not has_header(line):
        return None
    return float(line[:TIME_WIDTH]), stream, line[HEADER_WIDTH:], tag in (b"o", b"e")


def has_header(line: bytes) -> bool:
    """Return whether a line starts like a record.

    `float` does not suffice for this check, because it accepts "nan".
    """
    return (
        line[:10].isdigit()
        and line[10:11] == b"."
        and line[11:TIME_WIDTH].isdigit()
        and line[TIME_WIDTH : TIME_WIDTH + 1] in _BEFORE_TAG
        and line[HEADER_WIDTH - 1 : HEADER_WIDTH] == b" "
    )


class SegmentWriter:
    """Appends records to a segment with one write per batch, and handles a full disk.

    Records that cannot be written wait in memory, up to `BUFFER` bytes. Once the buffer is full,
    records are dropped, and a note in the log says how many bytes are missing.

    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "log")
    >>> writer = SegmentWriter(path)
    >>> writer.add(encode_lines(1.0, STDOUT, b"hello\\n"))
    >>> writer.flush(1.0)
    True
    >>> open(path, "rb").read()
    b'0000000001.000000:o hello\\n'
    """

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._batch: list[bytes] = []
        self._waiting = b""  # complete records that could not be written yet
        self._lost = 0
        self._why = ""
        self._cut_torn_record()

    @property
    def unwritten(self) -> int:
        """The number of log bytes that are not in the file: they are waiting, or were dropped."""
        return len(self._waiting) + self._lost

    @property
    def why_unwritten(self) -> str:
        """The reason why log text could not be written, or "" if all text was written."""
        return self._why

    def add(self, records: bytes) -> None:
        """Add complete log records to the batch that `flush` writes."""
        self._batch.append(records)

    def flush(self, time: float) -> bool:
        """Write all waiting log records to the file. Return whether anything was written."""
        batch, self._batch = b"".join(self._batch), []
        if self._waiting or self._lost:
            has_written = self._write_waiting(time)
            if self.unwritten:
                self._keep(batch)
                return has_written
        if not batch:
            return False
        rest = self._write(batch)
        self._keep(batch[len(batch) - rest :])
        return rest < len(batch)

    def _write_waiting(self, time: float) -> bool:
        waiting = self._waiting
        rest = self._write(waiting)
        self._waiting = waiting[len(waiting) - rest :]
        if not rest and self._lost:
            note = f"{self._lost} bytes of log lost: {self._why}"
            if not self._write(encode_lines(time, STDERR, note.encode() + b"\n")):
                self._lost = 0
        return rest < len(waiting)

    def _keep(self, records: bytes) -> None:
        """Keep as many unwritten log records as fit into the buffer, and count the rest as lost."""
        end = BUFFER - len(self._waiting)
        # after a loss, drop everything that follows, so that there is only one gap
        if len(records) > end or self._lost:
            end = 0 if self._lost else records.rfind(b"\n", 0, max(end, 0)) + 1
            self._lost += len(records) - end
            records = records[:end]
        self._waiting += records

    def close(self) -> None:
        os.close(self._fd)

    def _write(self, data: bytes) -> int:
        """Append log records to the file. Return the number of bytes that could not be written.

        This method never raises disk errors.
        """
        view = memoryview(data)
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, view[written:])
        except OSError as error:
            is_full = error.errno in _FULL
            self._why = "no space left" if is_full else os.strerror(error.errno or errno.EIO)
            whole = data.rfind(b"\n", 0, written) + 1
            if whole < written:
                size = os.fstat(self._fd).st_size
                os.ftruncate(self._fd, size - (written - whole))
            return len(data) - whole
        return 0

    def _cut_torn_record(self) -> None:
        """Cut off a killed writer's incomplete record, which readers would wait for."""
        size = os.fstat(self._fd).st_size
        end = size
        while end > 0:
            start = max(0, end - TEXT_LIMIT)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._fd, end)

"""Reads `metrics` files (see `worker/common/metrics_file.py`).

A `metrics` file can contain any bytes, because a trial's own process writes it. Its records are
lines of JSON or binary records that consist of 8-byte words.
"""

from __future__ import annotations

import math
import sys
from array import array
from binascii import crc32
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from windlass.model.thread_safe_types import learned
from windlass.server.stores.metrics.columns import Column, make_column
from windlass.worker.common.file_reads import read_part
from windlass.worker.common.metrics_file import HEAD, MAGIC, NAMES, PROGRESS, SEAL
from windlass.worker.program.report import GROUP, LONGEST_NAME, LONGEST_RECORD

PIECE = 1 << 20  # bytes per read, which is more than the size of any record
_AT_ONCE = 32 << 10  # bytes of JSON to decode at once; all other threads wait meanwhile
_MOST_NAMES = 4 << 20  # the most bytes to read from the names file
_WORD = 8
_ODD = {text: float(text) for text in ("nan", "inf", "-inf")}


class Record(msgspec.Struct, array_like=True):
    """A JSON record that contains the values from one call of `wl.report`."""

    time: float
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    group: str
    values: dict[str, float | str]


class Progress(msgspec.Struct, array_like=True):
    """A JSON record that contains a program's progress."""

    time: float
    kind: Annotated[str, msgspec.Meta(pattern=f"^{PROGRESS}$")]
    share: Annotated[float, msgspec.Meta(ge=0, le=1)]


class Names(msgspec.Struct, array_like=True):
    """A line in `metrics.names`, which lists metrics that are reported together."""

    group: str
    names: list[str]


class Reports(NamedTuple):
    """The reports in one piece of a `metrics` file."""

    columns: dict[str, Column]  # by the metric's full name
    progress: Progress | None = None


_record_decoder = msgspec.json.Decoder(learned(Record))
_progress_decoder = msgspec.json.Decoder(learned(Progress))
_names_decoder = msgspec.json.Decoder(learned(Names))


def full_name(group: str, name: str) -> str | None:
    """Return a metric's name including its group, or None if the name is invalid.

    >>> full_name("training", "loss"), full_name("validation", "loss"), full_name("", "loss")
    ('loss', 'validation/loss', None)
    """
    if not all(part.isprintable() and 0 < len(part) <= LONGEST_NAME for part in (group, name)):
        return None
    return name if group == GROUP else f"{group}/{name}"


def read_reports(path: Path, position: int, end: int | None = None) -> tuple[Reports, int]:
    """Read one piece of a `metrics` file.

    Return the piece's reports and the position at which the next piece starts.
    """
    most = PIECE if end is None else min(PIECE, end - position)
    data = read_bytes(path, position, most)
    if not data:
        return Reports({}), position
    parsing = _Parsing(data, path.with_name(NAMES))
    return parsing.reports, position + parsing.end


class _Parsing:
    """Parses one piece of a `metrics` file."""

    def __init__(self, data: bytes, names: Path) -> None:
        self._data = data
        self._names_path = names
        self._names: dict[bytes, list[str | None]] | None = None
        self._columns: dict[str, Column] = {}
        self._full: dict[tuple[str, str], str | None] = {}
        self._progress: Progress | None = None
        self.end = 0
        while (after := self._next()) > self.end:
            self.end = after

    @property
    def reports(self) -> Reports:
        return Reports(self._columns, self._progress)

    def _next(self) -> int:
        """Parse the next record of the piece.

        Return the record's end, or its start if it is incomplete.
        """
        data, start = self._data, self.end
        if not data.startswith(MAGIC, start):
            return self._text(start, data.find(MAGIC, start))
        whole = self._run(start)
        if whole > start:
            return whole
        # The record is incomplete or invalid, but the next one may be valid.
        another = data.find(MAGIC, start + 1)
        if another >= 0:
            self._decode_lines(data[start:another])
            return another
        return start if len(data) - start < LONGEST_RECORD else self._text(start, -1)

    def _text(self, start: int, stop: int) -> int:
        """Parse lines of JSON. Return the position after them.

        The lines end at `stop`, where the next binary record starts. If `stop` is negative, they
        end with the last complete line.
        """
        data = self._data
        if stop < 0:
            stop = data.rfind(b"\n", start) + 1
            if stop <= start:
                # Skip a line that is longer than any record and still has no end.
                return len(data) if len(data) - start > LONGEST_RECORD else start
        while start < stop:
            after = data.find(b"\n", start + _AT_ONCE, stop) + 1 or stop
            self._decode_lines(data[start:after])
            start = after
        return stop

    def _run(self, start: int) -> int:
        """Parse consecutive binary records of the same metrics. Return the position after them.

        Returns `start` if no valid record starts there.
        """
        data = self._data
        if start + HEAD.size > len(data):
            return start
        count: int = HEAD.unpack_from(data, start)[1]
        size = (4 + count) * _WORD
        most = (len(data) - start) // size
        head = data[start : start + _WORD]
        names = self._names_by_head().get(head) if most and count else None
        if names is None or not _is_whole(data, start, size, head):
            return start
        length = _run_length(data, start, size, most, head)
        end = start + length * size
        whole, words = array("q", data[start:end]), array("d", data[start:end])
        if sys.byteorder == "big":
            whole.byteswap()
            words.byteswap()
        steps = whole[1 :: 4 + count]
        times = words[2 :: 4 + count]
        is_sound = min(steps) >= 0 and math.isfinite(sum(times)) and min(times) >= 0
        for number, name in enumerate(names, 3):
            if name is None:
                continue
            column = Column(steps, times, words[number :: 4 + count])
            if not is_sound:
                rows = zip(*column, strict=True)
                column = make_column(row for row in rows if row[0] >= 0 <= row[1] < math.inf)
            if column.steps:
                self._add(name, column)
        return end

    def _add(self, name: str, column: Column) -> None:
        existing = self._columns.get(name)
        if existing is None:
            existing = self._columns[name] = make_column()
        existing.extend(column)

    def _names_by_head(self) -> dict[bytes, list[str | None]]:
        """Return the metric names that belong to each first word of a binary record."""
        if self._names is None:
            self._names = {}
            for line in read_bytes(self._names_path, 0, _MOST_NAMES).splitlines(keepends=True):
                try:
                    header = _names_decoder.decode(line)
                except (msgspec.MsgspecError, ValueError):
                    continue
                if 0 < len(header.names) < 256:
                    head = HEAD.pack(MAGIC, len(header.names), crc32(line))
                    self._names[head] = [full_name(header.group, name) for name in header.names]
        return self._names

    def _decode_lines(self, lines: bytes) -> None:
        try:
            records = _record_decoder.decode_lines(lines)
        except (msgspec.MsgspecError, ValueError):
            records = [decoded for line in lines.split(b"\n") if (decoded := self._decode(line))]
        for record in records:
            self._add_record(record)

    def _decode(self, line: bytes) -> Record | None:
        """Decode a line of a `metrics` file as a JSON record. Return None for invalid lines.

        If the line begins with an incomplete record, only the record that follows is decoded.
        """
        for start in {0, max(line.rfind(b"["), 0)}:
            try:
                return _record_decoder.decode(line[start:])
            except (msgspec.MsgspecError, ValueError):
                pass
            try:
                self._progress = _progress_decoder.decode(line[start:])
            except (msgspec.MsgspecError, ValueError):
                continue
            return None
        return None

    def _add_record(self, record: Record) -> None:
        for name, value in record.values.items():
            if isinstance(value, str):
                if value not in _ODD:
                    continue
                value = _ODD[value]
            key = (record.group, name)
            if key not in self._full:
                self._full[key] = full_name(*key)
            full = self._full[key]
            if full is not None:
                column = self._columns.get(full)
                if column is None:
                    column = self._columns[full] = make_column()
                column.add(record.step, record.time, value)


def _run_length(data: bytes, start: int, size: int, most: int, head: bytes) -> int:
    """Count the consecutive binary records that have this size and begin with the word `head`.

    The record at `start` is known to be one of them. The result is at most `most`.
    """
    count, window = 1, 8
    while count < most:
        more = min(window, most - count)
        begin = start + count * size
        words = array("q", data[begin : begin + more * size])
        stride = size // _WORD
        are_same = words[::stride].tobytes() == head * more
        if not (are_same and words[stride - 1 :: stride].tobytes() == SEAL * more):
            break
        count, window = count + more, window * 4
    while count < most and _is_whole(data, start + count * size, size, head):
        count += 1
    return count


def _is_whole(data: bytes, start: int, size: int, head: bytes) -> bool:
    return data.startswith(head, start) and data.startswith(SEAL, start + size - _WORD)


def read_bytes(path: Path, position: int, most: int) -> bytes:
    """Return up to `most` bytes of a file, or b"" if the path is not a regular file."""
    return read_part(str(path), position, most)

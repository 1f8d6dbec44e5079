"""Columnar chunks: the content of one stretch of a `metrics` file, metric by metric.

A chunk covers one `STRETCH` of a file. The server writes it when it is idle or when a query needs
it, into `columns/` beside the file, named for the start and the end of the stretch. A chunk has the
columns of each metric, an outline of them (`downsample`), and at its end an index of their
positions. So a query reads one curve without the others, and a few points of a long curve without
the rest. Chunks can be rebuilt from the file, and stretches without a chunk are read from the file.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from windlass.model.thread_safe_types import learned
from windlass.server.stores.metrics.base import Wanted
from windlass.server.stores.metrics.columns import Column, make_column
from windlass.server.stores.metrics.downsample import OUTLINED, downsample, outline
from windlass.server.stores.metrics.file_reader import PIECE, read_bytes, read_reports
from windlass.worker.common.file_reads import file_size

STRETCH = PIECE  # bytes of a file per chunk; a curve reads less than this besides its chunks
FOLDER = "columns"
_TAIL = b"WLcolumn"  # the last bytes of a chunk, after the length of its index
_LARGEST_INDEX = 64 << 20
_MOST_LIKELY = 4096  # bytes at the end of a chunk in which its index is, if it is small


class ColumnLocation(msgspec.Struct, frozen=True, array_like=True):
    """The location of a metric's columns in a chunk; the columns of its outline follow."""

    offset: int
    count: int
    outlined: int


class Chunk(NamedTuple):
    """An existing chunk of a stretch of a file."""

    path: Path
    start: int
    end: int

    def locations(self) -> dict[str, ColumnLocation]:
        """The location of each metric; empty if the chunk is damaged."""
        size = file_size(self.path)
        end = read_bytes(self.path, max(size - _MOST_LIKELY, 0), _MOST_LIKELY)
        if end[-8:] != _TAIL:
            return {}
        length = 16 + int.from_bytes(end[-16:-8], "little")
        if not 16 < length <= min(size, _LARGEST_INDEX):
            return {}
        if length > len(end):
            end = read_bytes(self.path, size - length, length)
        try:
            locations = _index_decoder.decode(end[-length:-16])
        except (msgspec.MsgspecError, ValueError):
            return {}
        is_sound = all(
            min(location.offset, location.count, location.outlined) >= 0
            and location.offset + 24 * (location.count + location.outlined) <= size
            for location in locations.values()
        )
        return locations if is_sound else {}

    def column(self, location: ColumnLocation) -> Column:
        """All points of a metric."""
        return self._read(location.offset, location.count)

    def outline(self, location: ColumnLocation) -> Column:
        """Few points of a metric, those at its spikes among them."""
        return self._read(location.offset + 24 * location.count, location.outlined)

    def _read(self, offset: int, count: int) -> Column:
        data = memoryview(read_bytes(self.path, offset, 24 * count))
        if len(data) != 24 * count:
            return make_column()
        third = 8 * count
        return Column(
            array("q", data[:third].tobytes()),
            array("d", data[third : 2 * third].tobytes()),
            array("d", data[2 * third :].tobytes()),
        )


_making = threading.Lock()  # the same chunk is not made twice at once
_index_decoder = msgspec.json.Decoder(learned(dict[str, ColumnLocation]))


def list_chunks(file: Path) -> dict[int, Chunk]:
    """The chunks of a `metrics` file by where they begin."""
    chunks = {}
    try:
        names = os.listdir(file.with_name(FOLDER))
    except OSError:
        return {}
    for name in names:
        start, _, end = name.partition("-")
        if start.isdecimal() and end.isdecimal() and int(start) < int(end):
            chunks[int(start)] = Chunk(file.with_name(FOLDER) / name, int(start), int(end))
    return chunks


def make_chunk(file: Path) -> bool:
    """Make a chunk of the first stretch that has none yet; whether there was one."""
    size = file_size(file)
    if size < STRETCH:
        return False
    with _making:
        chunks, start = list_chunks(file), 0
        while start in chunks:
            start = chunks[start].end
        return size - start >= STRETCH and _make(file, start)


def _make(file: Path, start: int) -> bool:
    reports, position = read_reports(file, start)
    if position == start:
        return False
    folder = file.with_name(FOLDER)
    unfinished = folder / f".{start}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        with open(unfinished, "wb") as writing:
            _write(writing, reports.columns)
            writing.flush()
            os.fsync(writing.fileno())  # a chunk that is there is believed, after a power cut too
        unfinished.rename(folder / f"{start}-{position}")
    except OSError:
        return False  # the disk is full; the file still has all the data
    return True


def _write(writing: BinaryIO, columns: dict[str, Column]) -> None:
    locations: dict[str, ColumnLocation] = {}
    for name, column in columns.items():
        short = outline(column)
        locations[name] = ColumnLocation(writing.tell(), len(column.values), len(short.values))
        writing.writelines((*column, *short))
    written = msgspec.json.encode(locations)
    writing.write(written + len(written).to_bytes(8, "little") + _TAIL)


def read_metrics(
    file: Path, wanted: Wanted, position: int = 0
) -> Iterator[tuple[dict[str, Column], int]]:
    """The points of metrics beyond a position, and where they end; piece by piece."""
    chunks = list_chunks(file)
    while True:
        chunk = chunks.get(position)
        locations = chunk.locations() if chunk is not None else {}
        if chunk is not None and locations:
            position = chunk.end
            columns = {
                name: chunk.column(location) for name, location in locations.items() if wanted(name)
            }
            yield columns, position
            continue
        reports, after = read_reports(file, position)
        if after == position:
            return
        position = after
        yield {name: reports.columns[name] for name in reports.columns if wanted(name)}, position


class Parts:
    """The points of one metric in a file: some in chunks, and those behind them."""

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[tuple[Chunk, ColumnLocation]] = []
        self._rest = make_column()

    def add_chunk(self, chunk: Chunk, location: ColumnLocation) -> None:
        self.count += location.count
        self._chunks.append((chunk, location))

    def add_rest(self, column: Column) -> None:
        self.count += len(column.values)
        self._rest.extend(column)

    def fewer(self, most: int) -> Column:
        """Return at most so many points, including spikes; read only the necessary bytes."""
        column = make_column()
        is_short = 2 * self.count > most * OUTLINED
        for chunk, location in self._chunks:
            column.extend(chunk.outline(location) if is_short else chunk.column(location))
        column.extend(outline(self._rest) if is_short else self._rest)
        return downsample(column, most)


def find_parts(file: Path, wanted: Wanted) -> dict[str, Parts]:
    """Find the points of metrics in a file and its chunks."""
    while make_chunk(file):
        pass
    parts: dict[str, Parts] = {}
    chunks, position = list_chunks(file), 0
    while True:
        chunk = chunks.get(position)
        locations = chunk.locations() if chunk is not None else {}
        if chunk is not None and locations:
            for name, location in locations.items():
                if wanted(name):
                    parts.setdefault(name, Parts()).add_chunk(chunk, location)
            position = chunk.end
            continue
        reports, after = read_reports(file, position)
        if after == position:
            return parts
        for name, column in reports.columns.items():
            if wanted(name):
                parts.setdefault(name, Parts()).add_rest(column)
        position = after

"""Columnar chunks. Each holds the points from one part of a `metrics` file, sorted by metric.

A chunk covers about `STRETCH` bytes of a file. The server writes chunks when it is idle or when a
query needs them, to the folder `columns/` beside the file. A chunk's name consists of the start and
end of its part of the file. A chunk contains each metric's column, an outline of each column (see
`downsample`), and finally an index of their positions. A query can therefore read one curve without
reading the others, and a few points of a long curve without reading all of it. Chunks can be
rebuilt from the file. Parts without a chunk are read from the file itself.
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

STRETCH = PIECE  # bytes of a file per chunk; a shorter remaining part gets no chunk
FOLDER = "columns"
_TAIL = b"WLcolumn"  # the last bytes of a chunk, which follow the length of the index
_LARGEST_INDEX = 64 << 20
_MOST_LIKELY = 4096  # the bytes at the end of a chunk that usually contain the whole index


class ColumnLocation(msgspec.Struct, frozen=True, array_like=True):
    """The location of a metric's column in a chunk. The column's outline follows the column."""

    offset: int
    count: int
    outlined: int


class Chunk(NamedTuple):
    """A chunk file, which stores the points from one part of a `metrics` file."""

    path: Path
    start: int
    end: int

    def locations(self) -> dict[str, ColumnLocation]:
        """Return the location of each metric in this chunk, or {} if the chunk is damaged."""
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
        """Return all points of a metric in this chunk."""
        return self._read(location.offset, location.count)

    def outline(self, location: ColumnLocation) -> Column:
        """Return a few of a metric's points in this chunk, including its extreme values."""
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


_making = threading.Lock()  # prevents two threads from writing the same chunk
_index_decoder = msgspec.json.Decoder(learned(dict[str, ColumnLocation]))


def list_chunks(file: Path) -> dict[int, Chunk]:
    """Return the chunks of a `metrics` file. Each key is the position where a chunk starts."""
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
    """Write a chunk for the first part of a `metrics` file that has no chunk yet.

    Return False if there is no such part.
    """
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
            # Sync the chunk, because readers trust an existing chunk, even after a power failure.
            os.fsync(writing.fileno())
        unfinished.rename(folder / f"{start}-{position}")
    except OSError:
        return False  # the disk is full, but the `metrics` file still contains all data
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
    """Yield the points in a `metrics` file that follow a position, piece by piece.

    Only metrics that `wanted` selects are included. Each piece consists of the metrics' columns and
    the position at which the piece ends.
    """
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
    """A metric's points in a file: those in chunks and those after the last chunk."""

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
        """Return at most `most` of the metric's points, including extreme values.

        If the outlines in chunks have enough points, only the outlines are read.
        """
        column = make_column()
        is_short = 2 * self.count > most * OUTLINED
        for chunk, location in self._chunks:
            column.extend(chunk.outline(location) if is_short else chunk.column(location))
        column.extend(outline(self._rest) if is_short else self._rest)
        return downsample(column, most)


def find_parts(file: Path, wanted: Wanted) -> dict[str, Parts]:
    """Return the points of the metrics that `wanted` selects, from a file and its chunks."""
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

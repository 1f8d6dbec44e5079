"""Columnar chunks: what a stretch of a `metrics` file says, metric by metric.

A chunk is made of each `STRETCH` of a file, when there is time or when it is asked for, and lies in
`columns/` beside it, called by where the stretch begins and ends. It has the columns of each
metric, an outline of them (`downsampling`), and at its end where they are. So one curve of many is
read without the others, and a few points of a long one without the rest. All of it can be made
again from the file, and what has no chunk is read from there.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from windlass.model.learning import learned
from windlass.server.columns import Column, column_of
from windlass.server.downsampling import OUTLINED, downsample, outline
from windlass.server.metricfile import PIECE, read_bytes, read_reports

STRETCH = PIECE  # bytes of a file; what is read of it for a curve, beside chunks, is less
FOLDER = "columns"
_TAIL = b"WLcolumn"  # the last bytes of a chunk, after the length of its index
_LARGEST_INDEX = 64 << 20
_MOST_LIKELY = 4096  # bytes at the end of a chunk in which its index is, if it is small


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where the columns of a metric are in a chunk; those of its outline follow."""

    offset: int
    count: int
    outlined: int


class Chunk(NamedTuple):
    """A chunk that is there, of a stretch of a file."""

    path: Path
    start: int
    end: int

    def places(self) -> dict[str, Place]:
        """Where each metric is; nothing if the chunk is damaged."""
        size = _size(self.path)
        end = read_bytes(self.path, max(size - _MOST_LIKELY, 0), _MOST_LIKELY)
        if end[-8:] != _TAIL:
            return {}
        length = 16 + int.from_bytes(end[-16:-8], "little")
        if not 16 < length <= min(size, _LARGEST_INDEX):
            return {}
        if length > len(end):
            end = read_bytes(self.path, size - length, length)
        try:
            found = _index_decoder.decode(end[-length:-16])
        except (msgspec.MsgspecError, ValueError):
            return {}
        is_sound = all(
            min(each.offset, each.count, each.outlined) >= 0
            and each.offset + 24 * (each.count + each.outlined) <= size
            for each in found.values()
        )
        return found if is_sound else {}

    def column(self, place: Place) -> Column:
        """All points of a metric."""
        return self._read(place.offset, place.count)

    def outline(self, place: Place) -> Column:
        """Few points of a metric, those at its spikes among them."""
        return self._read(place.offset + 24 * place.count, place.outlined)

    def _read(self, offset: int, count: int) -> Column:
        data = memoryview(read_bytes(self.path, offset, 24 * count))
        if len(data) != 24 * count:
            return column_of()
        third = 8 * count
        return Column(
            array("q", data[:third].tobytes()),
            array("d", data[third : 2 * third].tobytes()),
            array("d", data[2 * third :].tobytes()),
        )


_making = threading.Lock()  # the same chunk is not made twice at once
_index_decoder = msgspec.json.Decoder(learned(dict[str, Place]))


def chunks_of(file: Path) -> dict[int, Chunk]:
    """The chunks of a `metrics` file by where they begin."""
    found = {}
    try:
        names = os.listdir(file.with_name(FOLDER))
    except OSError:
        return {}
    for name in names:
        start, _, end = name.partition("-")
        if start.isdecimal() and end.isdecimal() and int(start) < int(end):
            found[int(start)] = Chunk(file.with_name(FOLDER) / name, int(start), int(end))
    return found


def make_chunk(file: Path) -> bool:
    """Make a chunk of the first stretch that has none yet; whether there was one."""
    size = _size(file)
    if size < STRETCH:
        return False
    with _making:
        known, start = chunks_of(file), 0
        while start in known:
            start = known[start].end
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
        return False  # a full disk: all of it is in the file as well
    return True


def _write(writing: BinaryIO, columns: dict[str, Column]) -> None:
    places: dict[str, Place] = {}
    for name, column in columns.items():
        short = outline(column)
        places[name] = Place(writing.tell(), len(column.values), len(short.values))
        writing.writelines((*column, *short))
    written = msgspec.json.encode(places)
    writing.write(written + len(written).to_bytes(8, "little") + _TAIL)


Wanted = Callable[[str], bool]


def read_metrics(
    file: Path, wanted: Wanted, position: int = 0
) -> Iterator[tuple[dict[str, Column], int]]:
    """The points of metrics beyond a position, and where they end; piece by piece."""
    known = chunks_of(file)
    while True:
        chunk = known.get(position)
        places = chunk.places() if chunk is not None else {}
        if chunk is not None and places:
            position = chunk.end
            found = {each: chunk.column(place) for each, place in places.items() if wanted(each)}
            yield found, position
            continue
        reports, after = read_reports(file, position)
        if after == position:
            return
        position = after
        yield {each: reports.columns[each] for each in reports.columns if wanted(each)}, position


class Parts:
    """The points of one metric in a file: some in chunks, and those behind them."""

    def __init__(self) -> None:
        self.count = 0
        self._chunks: list[tuple[Chunk, Place]] = []
        self._rest = column_of()

    def add_chunk(self, chunk: Chunk, place: Place) -> None:
        self.count += place.count
        self._chunks.append((chunk, place))

    def add_rest(self, column: Column) -> None:
        self.count += len(column.values)
        self._rest.extend(column)

    def fewer(self, most: int) -> Column:
        """At most so many of them, spikes among them; read no more than that needs."""
        found = column_of()
        is_short = 2 * self.count > most * OUTLINED
        for chunk, place in self._chunks:
            found.extend(chunk.outline(place) if is_short else chunk.column(place))
        found.extend(outline(self._rest) if is_short else self._rest)
        return downsample(found, most)


def parts_of(file: Path, wanted: Wanted) -> dict[str, Parts]:
    """Where the points of metrics are in a file, which is made chunks of."""
    while make_chunk(file):
        pass
    found: dict[str, Parts] = {}
    known, position = chunks_of(file), 0
    while True:
        chunk = known.get(position)
        places = chunk.places() if chunk is not None else {}
        if chunk is not None and places:
            for name, place in places.items():
                if wanted(name):
                    found.setdefault(name, Parts()).add_chunk(chunk, place)
            position = chunk.end
            continue
        reports, after = read_reports(file, position)
        if after == position:
            return found
        for name, column in reports.columns.items():
            if wanted(name):
                found.setdefault(name, Parts()).add_rest(column)
        position = after


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

"""The points that trials report, as their `metrics` files have them: the truth, read in pieces.

A trial's own process writes these files, so they may hold anything at all.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.status import ReplicaId
from windlass.model.wire import Points, PointsPage
from windlass.runtimes import layout
from windlass.server.columns import Column, column_of
from windlass.worker.reporting import GROUP, LONGEST_NAME, LONGEST_RECORD

PIECE = 1 << 20  # bytes that are read at a time; more than any record has
_AT_ONCE = 32 << 10  # bytes that are decoded while all other threads wait
_MOST_SEARCHED = 16 << 20  # bytes that are searched for an answer
_ODD = {text: float(text) for text in ("nan", "inf", "-inf")}


class Record(msgspec.Struct, array_like=True):
    """What one call of `wl.report` wrote."""

    time: float
    step: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    group: str
    values: dict[str, float | str]


class Place(NamedTuple):
    """How far the points of one metric of an attempt are known."""

    number: int  # of points
    position: int  # in its file


Known = dict[tuple[int, str, int, int], Place]  # by trial, role, index and attempt

_decoder = msgspec.json.Decoder(Record)


def new_points(home: Path, trial_id: int, name: str, known: Known) -> Iterator[Points]:
    """What a trial reported of a metric beyond what is known, which is then known, too."""
    for replica, path in _files(home, trial_id):
        key = (trial_id, replica.role, replica.index, replica.attempt)
        while True:
            count, position = known.get(key, Place(0, 0))
            records, after = read_records(path, position)
            if after == position:
                break
            column = columns_of(records).get(name)
            known[key] = Place(count + (len(column.values) if column else 0), after)
            if column:
                yield _points(trial_id, replica, name, count, column)


def page_of_points(home: Path, trial_id: int, name: str | None, cursor: str | None) -> PointsPage:
    """Points of a trial by role, index and attempt, each metric's in the order of its reports."""
    first, *place = _parse_cursor(cursor)
    searched = 0
    for replica, path in _files(home, trial_id):
        if replica < first:
            continue
        position, count = place if replica == first else (0, 0)
        while searched < _MOST_SEARCHED:
            records, after = read_records(path, position)
            if after == position:
                break
            searched += after - position
            position = after
            columns = columns_of(records)
            wanted = [each for each in columns if name in (None, each)]
            items = tuple(_points(trial_id, replica, each, count, columns[each]) for each in wanted)
            if name is not None and items:
                count += len(items[0].values)
            if items:
                return PointsPage(items=items, next=_cursor(replica, position, count))
        else:
            return PointsPage(items=(), next=_cursor(replica, position, count))
    return PointsPage(items=())


def read_records(path: Path, position: int) -> tuple[Sequence[Record], int]:
    """The whole records of a piece of a file, and where the next piece begins."""
    data = _read(path, position)
    end = data.rfind(b"\n") + 1
    if end == 0:
        # What is longer than a record, and has no end, is none.
        return [], position + (len(data) if len(data) > LONGEST_RECORD else 0)
    records: list[Record] = []
    start = 0
    while start < end:
        stop = data.find(b"\n", start + _AT_ONCE, end) + 1 or end
        records += _decode_lines(data[start:stop])
        start = stop
    return records, position + end


def points_until(path: Path, name: str, end: int) -> Column:
    """The points of one metric in a file up to a position."""
    found, position = column_of(), 0
    while position < end:
        records, after = read_records(path, position)
        if after == position:
            break
        if name in (columns := columns_of(records)):
            found.extend(columns[name])
        position = after
    return found


def columns_of(records: Sequence[Record]) -> dict[str, Column]:
    """The points of each metric, in their order."""
    columns: dict[tuple[str, str], Column | None] = {}
    for record in records:
        for name, value in record.values.items():
            key = (record.group, name)
            if key not in columns:
                columns[key] = column_of() if _is_name(key) else None
            column = columns[key]
            if column is None:
                continue
            if isinstance(value, str):
                if value not in _ODD:
                    continue
                value = _ODD[value]
            column.add(record.step, record.time, value)
    named: dict[str, Column] = {}
    for (group, name), column in columns.items():
        if column and column.values:
            full = name if group == GROUP else f"{group}/{name}"
            named[full] = _merged(named[full], column) if full in named else column
    return named


def _merged(one: Column, other: Column) -> Column:
    """`a/b` of one group and `b` of the group `a` are one metric."""
    rows = [*zip(*one, strict=True), *zip(*other, strict=True)]
    return column_of(sorted(rows, key=lambda row: row[1]))


def _is_name(key: tuple[str, str]) -> bool:
    return all(part.isprintable() and 0 < len(part) <= LONGEST_NAME for part in key)


def _files(home: Path, trial_id: int) -> Iterator[tuple[ReplicaId, Path]]:
    for replica, folder in layout.attempts(home, trial_id):
        yield replica, folder / layout.METRICS


def _read(path: Path, position: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        # A pipe or a device has no end.
        return os.pread(fd, PIECE, position) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)


def _decode_lines(lines: bytes) -> list[Record]:
    try:
        return _decoder.decode_lines(lines)
    except (msgspec.MsgspecError, ValueError):
        return [each for line in lines.split(b"\n") if (each := _decode(line)) is not None]


def _decode(line: bytes) -> Record | None:
    """One record; behind a torn one, which ended where the next began."""
    for start in {0, max(line.rfind(b"["), 0)}:
        try:
            return _decoder.decode(line[start:])
        except (msgspec.MsgspecError, ValueError):
            continue
    return None


def _points(trial_id: int, replica: ReplicaId, name: str, start: int, column: Column) -> Points:
    # They are JSON in the end, which has no number for these.
    values = [v if v - v == 0 else repr(v) for v in column.values]
    return Points(
        trial_id=trial_id,
        name=name,
        role=replica.role,
        index=replica.index,
        attempt=replica.attempt,
        start=start,
        steps=tuple(column.steps),
        times=tuple(column.times),
        values=tuple(values),
    )


def _cursor(replica: ReplicaId, position: int, count: int) -> str:
    return f"{replica.role}.{replica.index}.{replica.attempt}.{position}.{count}"


def _parse_cursor(cursor: str | None) -> tuple[ReplicaId, int, int]:
    """An attempt, where to begin in its file, how many points were told of it."""
    if cursor is None:
        return ReplicaId("", 0, 0), 0, 0
    role, *numbers = cursor.split(".")
    if len(numbers) != 4 or not all(
        each.isascii() and each.isdecimal() and len(each) < 19 for each in numbers
    ):
        raise InvalidArgument(
            "The cursor is not one that these points gave out.",
            hint="Start again without a cursor.",
        )
    index, attempt, position, count = map(int, numbers)
    return ReplicaId(role, index, attempt), position, count

"""The points that trials reported, piece by piece, as JSON tells them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from windlass.model.errors import InvalidArgument
from windlass.model.metrics import Points, PointsPage
from windlass.model.status import ReplicaId
from windlass.runtimes import layout
from windlass.server.chunks import read_metrics
from windlass.server.columns import Column, column_of
from windlass.server.metricfile import read_reports

_MOST_SEARCHED = 16 << 20  # bytes that are searched for an answer
_MOST_AT_ONCE = 20_000  # points that an event tells
_NONE = column_of()


class Place(NamedTuple):
    """How far the points of one metric of an attempt are known."""

    number: int  # of points
    position: int  # in its file


Known = dict[tuple[int, str, int, int], Place]  # by trial, role, index and attempt


def new_points(home: Path, trial_id: int, name: str, known: Known) -> Iterator[Points]:
    """What a trial reported of a metric beyond what is known, which is then known, too."""
    for replica, path in metric_files(home, trial_id):
        key = (trial_id, replica.role, replica.index, replica.attempt)
        before = known.get(key, Place(0, 0)).position
        for columns, after in read_metrics(path, name.__eq__, before):
            column = columns.get(name, _NONE)
            count = known.get(key, Place(0, 0)).number
            known[key] = Place(count + len(column.values), after)
            for start in range(0, len(column.values), _MOST_AT_ONCE):
                part = column.part(start, start + _MOST_AT_ONCE)
                yield _points(trial_id, replica, name, count + start, part)


def page_of_points(home: Path, trial_id: int, name: str | None, cursor: str | None) -> PointsPage:
    """Points of a trial by role, index and attempt, each metric's in the order of its reports."""
    first, *place = _parse_cursor(cursor)
    searched = 0
    for replica, path in metric_files(home, trial_id):
        if replica < first:
            continue
        position, count = place if replica == first else (0, 0)
        while searched < _MOST_SEARCHED:
            reports, after = read_reports(path, position)
            if after == position:
                break
            searched += after - position
            position = after
            columns = reports.columns
            wanted = [each for each in columns if name in (None, each)]
            items = tuple(_points(trial_id, replica, each, count, columns[each]) for each in wanted)
            if name is not None and items:
                count += len(items[0].values)
            if items:
                return PointsPage(items=items, next=_cursor(replica, position, count))
        else:
            return PointsPage(items=(), next=_cursor(replica, position, count))
    return PointsPage(items=())


def metric_files(home: Path, trial_id: int) -> Iterator[tuple[ReplicaId, Path]]:
    """The `metrics` file of each attempt of a trial, whether it is there or not."""
    for replica, folder in layout.attempts(home, trial_id):
        yield replica, folder / layout.METRICS


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

"""Reads a metric's new points and converts them to JSON for an experiment's event stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from windlass.model.metrics import Points
from windlass.model.status import ReplicaId
from windlass.runtimes import paths
from windlass.server.stores.metrics.base import CurvePosition, CurvePositions
from windlass.server.stores.metrics.chunks import read_metrics
from windlass.server.stores.metrics.columns import Column, make_column

_MOST_AT_ONCE = 20_000  # the most points in one event
_NONE = make_column()


def new_points(home: Path, trial_id: int, name: str, positions: CurvePositions) -> Iterator[Points]:
    """Yield the points of a metric that follow `positions`, and advance `positions`."""
    for replica, path in metric_files(home, trial_id):
        key = (trial_id, replica.role, replica.index, replica.attempt)
        before = positions.get(key, CurvePosition(0, 0)).position
        for columns, after in read_metrics(path, name.__eq__, before):
            column = columns.get(name, _NONE)
            count = positions.get(key, CurvePosition(0, 0)).number
            positions[key] = CurvePosition(count + len(column.values), after)
            for start in range(0, len(column.values), _MOST_AT_ONCE):
                part = column.part(start, start + _MOST_AT_ONCE)
                yield _points(trial_id, replica, name, count + start, part)


def metric_files(home: Path, trial_id: int) -> Iterator[tuple[ReplicaId, Path]]:
    """Yield each of a trial's attempts and its `metrics` file, which may be missing."""
    for replica, folder in paths.attempts(home, trial_id):
        yield replica, folder / paths.METRICS


def _points(trial_id: int, replica: ReplicaId, name: str, start: int, column: Column) -> Points:
    # JSON numbers cannot be NaN or infinite, so such values become texts.
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

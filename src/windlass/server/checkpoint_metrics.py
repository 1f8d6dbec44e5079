"""What a trial reported when it saved its checkpoints."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from windlass.model.records import CheckpointRecord
from windlass.server.chunks import read_metrics
from windlass.server.columns import Column
from windlass.server.points import metric_files

_Place = tuple[float, int, float]  # where a point stands in the order of what counts


def values_at(
    home: Path, trial_id: int, metric: str, checkpoints: Sequence[CheckpointRecord]
) -> dict[int, float]:
    """The metric of each checkpoint, by its id: as reported at its step, or last before.

    What attempts after it reported is not its own; of one without a step, the time decides. Of a
    step that was reported more than once, the last word of the newest attempt counts.
    """
    found: dict[int, tuple[_Place, float]] = {}
    for attempt, column in _columns(home, trial_id, metric):
        for each in checkpoints:
            point = _last_before(each, attempt, column) if attempt <= each.attempt else None
            if point is not None and (each.id not in found or found[each.id][0] <= point[0]):
                found[each.id] = point
    return {key: value for key, (_, value) in found.items()}


def _last_before(
    checkpoint: CheckpointRecord, attempt: int, column: Column
) -> tuple[_Place, float] | None:
    if checkpoint.step is None:
        at = bisect_right(column.times, checkpoint.created) - 1
        return None if at < 0 else ((column.times[at], 0, 0.0), column.values[at])
    at = bisect_right(column.steps, checkpoint.step) - 1
    if at < 0:
        return None
    return (column.steps[at], attempt, column.times[at]), column.values[at]


def _columns(home: Path, trial_id: int, metric: str) -> Iterator[tuple[int, Column]]:
    """The points of a metric with their attempts: the one place that asks the metric store.

    In pieces whose steps and times both grow, as those of nearly every program do.
    """
    for replica, path in metric_files(home, trial_id):
        for columns, _ in read_metrics(path, metric.__eq__, 0):
            column = columns.get(metric)
            if column is not None:
                yield from ((replica.attempt, each) for each in _growing(column))


def _growing(column: Column) -> Iterator[Column]:
    start = 0
    steps, times = column.steps, column.times
    if list(steps) == sorted(steps) and list(times) == sorted(times):
        yield column
        return
    for i in range(1, len(steps) + 1):
        if i == len(steps) or steps[i] < steps[i - 1] or times[i] < times[i - 1]:
            yield column.part(start, i)
            start = i

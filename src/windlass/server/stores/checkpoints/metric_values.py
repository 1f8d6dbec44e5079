"""Finds the metric values that a trial had reported when it saved each checkpoint."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.server.stores.metrics.base import MetricStore, Wanted
from windlass.server.stores.metrics.columns import Column

_MOST_REMEMBERED = 100_000  # the most values to cache
# The step, attempt and time of a point. The point with the greatest tuple takes precedence.
_Order = tuple[float, int, float]
_Sizes = tuple[int, ...]  # the sizes of a trial's metrics files


class CheckpointMetrics:
    """Finds the metric values for checkpoints.

    The values are cached until the trial reports more.
    """

    def __init__(self, metrics: MetricStore) -> None:
        self._metrics = metrics
        self._cache: dict[str, tuple[_Sizes, dict[str, float]]] = {}  # by checkpoint uid
        self._remembered = 0
        self._lock = threading.Lock()

    def added_to(self, records: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
        """Return copies of checkpoint records that include the metric values at each checkpoint."""
        by_trial: dict[int, list[CheckpointRecord]] = {}
        for record in records:
            by_trial.setdefault(record.trial_id, []).append(record)
        values: dict[str, dict[str, float]] = {}
        for trial_id, some in by_trial.items():
            values |= self._cached_values(trial_id, some)
        return [with_metrics(record, values[record.uid]) for record in records]

    def _cached_values(
        self, trial_id: int, checkpoints: Sequence[CheckpointRecord]
    ) -> dict[str, dict[str, float]]:
        sizes = self._metrics.sizes(trial_id)
        with self._lock:
            cached = {record.uid: self._cache.get(record.uid) for record in checkpoints}
        metrics = {uid: hit[1] for uid, hit in cached.items() if hit and hit[0] == sizes}
        new = [record for record in checkpoints if record.uid not in metrics]
        values = values_at(self._metrics, trial_id, new, is_own_metric) if new else {}
        with self._lock:
            for record in new:
                metrics[record.uid] = values.get(record.id, {})
                self._remembered += 1 + len(metrics[record.uid])
                if self._remembered > _MOST_REMEMBERED:
                    self._cache.clear()
                    self._remembered = 0
                self._cache[record.uid] = sizes, metrics[record.uid]
        return metrics


def with_metrics(record: CheckpointRecord, values: dict[str, float]) -> CheckpointRecord:
    """Return a copy of a checkpoint that includes these metric values.

    Infinite and NaN values become texts.
    """
    encoded = {name: v if math.isfinite(v) else repr(v) for name, v in values.items()}
    metrics = dict(sorted({**record.metrics, **encoded}.items()))
    return msgspec.structs.replace(record, metrics=metrics)


def values_at(
    metrics: MetricStore,
    trial_id: int,
    checkpoints: Sequence[CheckpointRecord],
    wanted: Wanted,
) -> dict[int, dict[str, float]]:
    """Return the metric values of checkpoints, by checkpoint id and metric name.

    A checkpoint gets the value reported at its step or, if there is none, the last value before
    that step. Reports from later attempts do not count. If the checkpoint has no step, its time is
    used instead. If a step was reported more than once, the newest attempt's last report counts.
    """
    points: dict[tuple[int, str], tuple[_Order, float]] = {}
    for attempt, name, column in _columns(metrics, trial_id, wanted):
        for checkpoint in checkpoints:
            point = (
                _last_before(checkpoint, attempt, column) if attempt <= checkpoint.attempt else None
            )
            before = points.get((checkpoint.id, name))
            if point is not None and (before is None or before[0] <= point[0]):
                points[checkpoint.id, name] = point
    values: dict[int, dict[str, float]] = {}
    for (key, name), (_, value) in points.items():
        values.setdefault(key, {})[name] = value
    return values


def _last_before(
    checkpoint: CheckpointRecord, attempt: int, column: Column
) -> tuple[_Order, float] | None:
    if checkpoint.step is None:
        at = bisect_right(column.times, checkpoint.created) - 1
        return None if at < 0 else ((column.times[at], 0, 0.0), column.values[at])
    at = bisect_right(column.steps, checkpoint.step) - 1
    if at < 0:
        return None
    return (column.steps[at], attempt, column.times[at]), column.values[at]


def _columns(
    metrics: MetricStore, trial_id: int, wanted: Wanted
) -> Iterator[tuple[int, str, Column]]:
    """Yield the points of each metric in one or more pieces.

    Each piece comes with the number of the attempt that reported it and the metric's name. Within a
    piece, steps and times never decrease. Nearly every program reports in this order, so most
    metrics of an attempt are a single piece.
    """
    for replica, columns in metrics.columns(trial_id, wanted):
        for name, column in columns.items():
            yield from ((replica.attempt, name, part) for part in _growing(column))


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

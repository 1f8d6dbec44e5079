"""Metric values of checkpoints: the values that a trial had reported when it saved a checkpoint."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.server.stores.metrics.base import MetricStore, Wanted
from windlass.server.stores.metrics.columns import Column

_MOST_REMEMBERED = 100_000  # cached values
# Step, attempt and time of a point; the greatest tuple takes precedence.
_Order = tuple[float, int, float]
_Sizes = tuple[int, ...]  # sizes of the metrics files of a trial


class CheckpointMetrics:
    """Finds metric values of checkpoints, and caches them until the trial reports more."""

    def __init__(self, metrics: MetricStore) -> None:
        self._metrics = metrics
        self._cache: dict[str, tuple[_Sizes, dict[str, float]]] = {}  # by the uid of the checkpoint
        self._remembered = 0
        self._lock = threading.Lock()

    def added_to(self, records: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
        """Return copies of checkpoints with the metric values that their programs had reported."""
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
    """Return a copy of a checkpoint with these metrics added.

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

    The value is the one reported at the step of the checkpoint, or else the last one before this
    step. Reports of later attempts do not count. If the checkpoint has no step, its time decides.
    If a step was reported more than once, the last report of the newest attempt counts.
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
    """Yield the points of metrics in pieces, with the attempt number and the metric name.

    Within a piece, steps and times grow. Nearly every program reports in this order, so most
    columns are one piece.
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

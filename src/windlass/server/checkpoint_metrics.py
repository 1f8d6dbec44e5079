"""What a trial reported when it saved its checkpoints."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from windlass.model.records import CheckpointRecord, is_own_metric
from windlass.server.chunks import Wanted, read_metrics
from windlass.server.columns import Column
from windlass.server.points import metric_files

_MOST_REMEMBERED = 100_000  # values
_Place = tuple[float, int, float]  # where a point stands in the order of what counts
_Sizes = tuple[int, ...]  # of the files that a trial reports to


class CheckpointMetrics:
    """What trials reported when they saved: read once, until they report something more."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[str, tuple[_Sizes, dict[str, float]]] = {}  # by uid
        self._remembered = 0
        self._lock = threading.Lock()

    def added_to(self, records: Sequence[CheckpointRecord]) -> list[CheckpointRecord]:
        """The same checkpoints with all that their programs reported, beside what they have."""
        by_trial: dict[int, list[CheckpointRecord]] = {}
        for each in records:
            by_trial.setdefault(each.trial_id, []).append(each)
        found: dict[str, dict[str, float]] = {}
        for trial_id, some in by_trial.items():
            found |= self._of(trial_id, some)
        return [with_metrics(each, found[each.uid]) for each in records]

    def _of(
        self, trial_id: int, checkpoints: Sequence[CheckpointRecord]
    ) -> dict[str, dict[str, float]]:
        sizes = tuple(_size(path) for _, path in metric_files(self._home, trial_id))
        with self._lock:
            known = {each.uid: self._known.get(each.uid) for each in checkpoints}
        found = {uid: each[1] for uid, each in known.items() if each and each[0] == sizes}
        new = [each for each in checkpoints if each.uid not in found]
        values = values_at(self._home, trial_id, new, is_own_metric) if new else {}
        with self._lock:
            for each in new:
                found[each.uid] = values.get(each.id, {})
                self._remembered += 1 + len(found[each.uid])
                if self._remembered > _MOST_REMEMBERED:
                    self._known.clear()
                    self._remembered = 0
                self._known[each.uid] = sizes, found[each.uid]
        return found


def with_metrics(record: CheckpointRecord, values: dict[str, float]) -> CheckpointRecord:
    """A checkpoint with these metrics, too; JSON has no number for some."""
    told = {name: v if math.isfinite(v) else repr(v) for name, v in values.items()}
    metrics = dict(sorted({**record.metrics, **told}.items()))
    return msgspec.structs.replace(record, metrics=metrics)


def values_at(
    home: Path, trial_id: int, checkpoints: Sequence[CheckpointRecord], wanted: Wanted
) -> dict[int, dict[str, float]]:
    """The metrics of checkpoints, by id and name: as reported at its step, or last before.

    What attempts after it reported is not its own; of one without a step, the time decides. Of a
    step that was reported more than once, the last word of the newest attempt counts.
    """
    found: dict[tuple[int, str], tuple[_Place, float]] = {}
    for attempt, name, column in _columns(home, trial_id, wanted):
        for each in checkpoints:
            point = _last_before(each, attempt, column) if attempt <= each.attempt else None
            before = found.get((each.id, name))
            if point is not None and (before is None or before[0] <= point[0]):
                found[each.id, name] = point
    values: dict[int, dict[str, float]] = {}
    for (key, name), (_, value) in found.items():
        values.setdefault(key, {})[name] = value
    return values


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


def _columns(home: Path, trial_id: int, wanted: Wanted) -> Iterator[tuple[int, str, Column]]:
    """The points of metrics with their attempts: the one place that asks the metric store.

    In pieces whose steps and times both grow, as those of nearly every program do.
    """
    for replica, path in metric_files(home, trial_id):
        for columns, _ in read_metrics(path, wanted, 0):
            for name, column in columns.items():
                yield from ((replica.attempt, name, each) for each in _growing(column))


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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

"""What a trial reported when it saved its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from windlass.model.records import CheckpointRecord
from windlass.server.points import new_points


class _Reported(NamedTuple):
    attempt: int
    step: int
    time: float
    value: float


def values_at(
    home: Path, trial_id: int, metric: str, checkpoints: Sequence[CheckpointRecord]
) -> dict[int, float]:
    """The metric of each checkpoint, by its id: as reported at its step, or last before.

    What attempts after it reported is not its own; of one without a step, the time decides. Of a
    step that was reported more than once, the last word of the newest attempt counts.
    """
    reported = list(_reported(home, trial_id, metric))
    found = {each.id: _value_of(each, reported) for each in checkpoints}
    return {key: value for key, value in found.items() if value is not None}


def _value_of(checkpoint: CheckpointRecord, reported: Iterable[_Reported]) -> float | None:
    mine = (each for each in reported if each.attempt <= checkpoint.attempt)
    step = checkpoint.step
    if step is None:
        before = (each for each in mine if each.time <= checkpoint.created)
        newest = max(before, key=lambda each: each.time, default=None)
    else:
        before = (each for each in mine if each.step <= step)
        newest = max(before, key=lambda each: (each.step, each.attempt, each.time), default=None)
    return None if newest is None else newest.value


def _reported(home: Path, trial_id: int, metric: str) -> Iterator[_Reported]:
    """All points of a metric: the one place that asks the metric store."""
    for points in new_points(home, trial_id, metric, {}):
        for step, time, value in zip(points.steps, points.times, points.values, strict=True):
            yield _Reported(points.attempt, step, time, float(value))

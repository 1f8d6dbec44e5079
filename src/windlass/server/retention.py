"""Which checkpoints of a trial go when another has come: a pure function."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from windlass.model.job import Keep
from windlass.model.records import CheckpointRecord


def to_delete(
    keep: Keep,
    checkpoints: Sequence[CheckpointRecord],
    values: Mapping[int, float],
    used: Collection[int],
) -> list[CheckpointRecord]:
    """Those that nothing speaks for, oldest first.

    `values` has the metric of each, by id, where it is known; `used` are the ids of those that
    something needs. Of equally good ones the newer are better; one with NaN is none of the best.
    One without a value may be: while no value is known, all stay, and after that it goes only
    by a number of the last that somebody gave.

    >>> three = [CheckpointRecord(id=n, uid="", trial_id=1, number=n, name="m") for n in (1, 2, 3)]
    >>> best = Keep(last=1, best=1, metric="loss")
    >>> [each.id for each in to_delete(best, three, {1: 0.2, 2: 0.9, 3: 0.5}, ())]
    [2]
    >>> [each.id for each in to_delete(Keep(last=1), three, {}, {1})]
    [2]
    >>> to_delete(best, three, {}, ()), to_delete(best, three, {2: 0.9}, ())
    ([], [])
    """
    if keep.best and not values:
        return []
    newest_first = sorted(checkpoints, key=lambda each: each.number, reverse=True)
    kept = {each.id for each in newest_first[: keep.last]} | set(used)
    judged = [each for each in newest_first if not math.isnan(values.get(each.id, math.nan))]
    judged.sort(key=lambda each: values[each.id], reverse=keep.is_max)  # stable: newer ones first
    kept |= {each.id for each in judged[: keep.best]}
    if keep.best and not keep.is_last_given:
        kept |= {each.id for each in newest_first if each.id not in values}
    return [each for each in reversed(newest_first) if each.id not in kept]

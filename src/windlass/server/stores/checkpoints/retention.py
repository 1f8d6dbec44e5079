"""Retention: a pure function that selects which of a trial's checkpoints to delete."""

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
    """Select the checkpoints that no retention rule keeps, oldest first.

    `values` maps checkpoint ids to the known metric values. `used` contains the ids of checkpoints
    in use. Of two equally good checkpoints, the newer one counts as better. NaN is never among the
    best. A checkpoint that has no value yet may turn out to be the best, so all checkpoints are
    kept while no value is known. Afterwards, a checkpoint that has no value is deleted only if the
    user set `last`.

    >>> three = [CheckpointRecord(id=n, uid="", trial_id=1, number=n, name="m") for n in (1, 2, 3)]
    >>> best = Keep(last=1, best=1, metric="loss")
    >>> [deleted.id for deleted in to_delete(best, three, {1: 0.2, 2: 0.9, 3: 0.5}, ())]
    [2]
    >>> [deleted.id for deleted in to_delete(Keep(last=1), three, {}, {1})]
    [2]
    >>> to_delete(best, three, {}, ()), to_delete(best, three, {2: 0.9}, ())
    ([], [])
    """
    if keep.best and not values:
        return []
    newest_first = sorted(checkpoints, key=lambda checkpoint: checkpoint.number, reverse=True)
    kept = {checkpoint.id for checkpoint in newest_first[: keep.last]} | set(used)
    judged = [
        checkpoint
        for checkpoint in newest_first
        if not math.isnan(values.get(checkpoint.id, math.nan))
    ]
    # The sort is stable, so a newer checkpoint comes before an equally good older one.
    judged.sort(key=lambda checkpoint: values[checkpoint.id], reverse=keep.is_max)
    kept |= {checkpoint.id for checkpoint in judged[: keep.best]}
    if keep.best and not keep.has_last:
        kept |= {checkpoint.id for checkpoint in newest_first if checkpoint.id not in values}
    return [checkpoint for checkpoint in reversed(newest_first) if checkpoint.id not in kept]

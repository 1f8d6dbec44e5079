"""Pauses between pods that something removes again and again.

A pod that was seen and is gone has vanished, which is a restart like others: they have a pause and
a limit. One that is gone before anybody looked comes back in the same attempt, at once, and nothing
is counted against its job. Where something deletes every pod that is made (a controller gone wild,
a policy), that would keep the whole cluster busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from windlass.kube.kinds import Object
from windlass.model.status import EventKind, ReplicaId
from windlass.operator.events import Recorder
from windlass.runtimes.protocol import NotYet

_FREE = 2  # made so often at once: the first, and one in the place of a deleted one
_LONGEST = 60.0
_FORGIVEN = 300.0  # seconds after which one that went is the first again


class _Made(msgspec.Struct):
    times: int
    last: float
    told: int = 0


class Pacing:
    """Has an attempt wait that was made and is gone again, time after time; in memory alone."""

    def __init__(self, recorder: Recorder, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = recorder
        self._clock = clock
        self._made: dict[str, dict[ReplicaId, _Made]] = {}

    def made(self, uid: str, replica: ReplicaId) -> None:
        """A pod of an attempt was made."""
        now = self._clock()
        of_job = self._made.setdefault(uid, {})
        before = of_job.get(replica)
        if before is None or now - before.last > _FORGIVEN:
            of_job[replica] = _Made(1, now)
        else:
            before.times, before.last = before.times + 1, now

    def check(self, uid: str, replica: ReplicaId, name: str, job: Object | None) -> None:
        """Raise `NotYet` if it was made too often just now; once each time that is told."""
        before = self._made.get(uid, {}).get(replica)
        if before is None:
            return
        left = before.last + pause_after(before.times) - self._clock()
        if left <= 0:
            return
        if job is not None and before.told < before.times:
            before.told = before.times
            told = f"the pod {name} was made {before.times} times and is gone each time: something "
            told += "in the cluster deletes it. It is made again after a pause"
            self._recorder.tell(job, "PodKeepsVanishing", told, kind=EventKind.WARNING)
        raise NotYet(f"the pod {name} keeps vanishing", is_told=False)

    def forget(self, uid: str) -> None:
        """A job is over."""
        self._made.pop(uid, None)


def pause_after(times: int) -> float:
    """How long one that was made so often waits before it is made once more.

    >>> [pause_after(times) for times in (1, 2, 3, 4, 7, 8, 9999)]
    [0.0, 1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    """
    if times < _FREE:
        return 0.0
    return min(2.0 ** min(times - _FREE, 32), _LONGEST)

"""Delays the recreation of a pod that is deleted again and again.

If a pod vanishes after it was observed, its replica restarts, subject to a delay and a restart
limit. If a pod vanishes before it was observed, the operator creates it again in the same attempt
without counting a restart. Without a delay here, a faulty controller or policy that deletes every
new pod would keep the whole cluster busy.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from windlass.kube.api.resource_kinds import Object
from windlass.model.status import EventKind, ReplicaId
from windlass.operator.events import EventRecorder
from windlass.runtimes.base import NotYet

_FREE = 2  # the first creation and one replacement need no pause
_LONGEST = 60.0
_FORGIVEN = 300.0  # seconds without a creation after which the count is reset


class _Creations(msgspec.Struct):
    times: int
    last: float
    reported: int = 0


class RecreateBackoff:
    """Delays the creation of pods that vanish again and again.

    The delays are not stored, so they are lost when the operator restarts.
    """

    def __init__(
        self, recorder: EventRecorder, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._creations: dict[str, dict[ReplicaId, _Creations]] = {}

    def record(self, uid: str, replica: ReplicaId) -> None:
        """Count one creation of an attempt's pod."""
        now = self._clock()
        of_job = self._creations.setdefault(uid, {})
        before = of_job.get(replica)
        if before is None or now - before.last > _FORGIVEN:
            of_job[replica] = _Creations(1, now)
        else:
            before.times, before.last = before.times + 1, now

    def check(self, uid: str, replica: ReplicaId, name: str, job: Object | None) -> None:
        """Raise `NotYet` if the pod must not be created yet. Record one event per pause."""
        before = self._creations.get(uid, {}).get(replica)
        if before is None:
            return
        left = before.last + pause_after(before.times) - self._clock()
        if left <= 0:
            return
        if job is not None and before.reported < before.times:
            before.reported = before.times
            message = (
                f"the pod {name} was created {before.times} times and deleted each time: something "
            )
            message += "in the cluster deletes it. It is created again after a pause"
            self._recorder.record(job, "PodKeepsVanishing", message, kind=EventKind.WARNING)
        raise NotYet(f"the pod {name} is deleted again and again", is_notified=False)

    def forget(self, uid: str) -> None:
        """Discard the counts of how often a job's pods were created."""
        self._creations.pop(uid, None)


def pause_after(times: int) -> float:
    """Return how many seconds to pause after this number of creations.

    >>> [pause_after(times) for times in (1, 2, 3, 4, 7, 8, 9999)]
    [0.0, 1.0, 2.0, 4.0, 32.0, 60.0, 60.0]
    """
    if times < _FREE:
        return 0.0
    return min(2.0 ** min(times - _FREE, 32), _LONGEST)

"""Expectations: what was asked of a runtime and has not been seen yet."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import msgspec

from windlass.model.status import Replica, ReplicaId

PATIENCE = 300.0


class _Expected(msgspec.Struct):
    creates: set[ReplicaId]
    deletes: set[ReplicaId]
    until: float


class Expectations:
    """What was asked for, by job, so that no decision is made on a view that lags behind.

    A creation is seen when the runtime took it on or reports it; a deletion when it is gone, has
    ended, or is reported as on its way out. What is never seen is given up after five minutes.

    >>> worker = ReplicaId("worker", 0, 1)
    >>> expectations = Expectations()
    >>> expectations.expect("job", creates=[worker], deletes=[], now=0.0)
    >>> expectations.outstanding("job", [], now=10.0)
    290.0
    >>> expectations.outstanding("job", [], now=300.0)
    0.0
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._jobs: dict[str, _Expected] = {}

    def expect(
        self, uid: str, *, creates: Iterable[ReplicaId], deletes: Iterable[ReplicaId], now: float
    ) -> None:
        """Something has been asked for; it joins what is already expected."""
        new_creates, new_deletes = set(creates), set(deletes)
        if not new_creates and not new_deletes:
            return
        with self._lock:
            expected = self._jobs.setdefault(uid, _Expected(set(), set(), 0.0))
            expected.creates |= new_creates
            expected.deletes |= new_deletes
            expected.until = now + self._patience

    def created(self, uid: str, replica: ReplicaId) -> None:
        """A runtime took it on, and has reported it since: if it is missing, it is gone again."""
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is not None:
                expected.creates.discard(replica)

    def withdraw(self, uid: str, *replicas: ReplicaId) -> None:
        """They could not be asked for after all."""
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is not None:
                expected.creates.difference_update(replicas)
                expected.deletes.difference_update(replicas)

    def outstanding(self, uid: str, replicas: Sequence[Replica], now: float) -> float:
        """For how many seconds at most to hold back, seeing these replicas; 0 to go ahead."""
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is None:
                return 0.0
            seen = {each.id for each in replicas}
            staying = {
                each.id for each in replicas if not each.phase.is_final and not each.deleting
            }
            expected.creates -= seen
            expected.deletes &= staying
            # Both kinds must be met. Creations seen stay seen, even if they are gone again.
            if (expected.creates or expected.deletes) and now < expected.until:
                return expected.until - now
            del self._jobs[uid]
            return 0.0

    def forget(self, uid: str) -> None:
        """The job is over."""
        with self._lock:
            self._jobs.pop(uid, None)

"""Tracks the creations and deletions that a runtime has accepted but not yet reported."""

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
    """Each job's requested creations and deletions that were not observed yet.

    The controller makes no new decision about a job before the job's expectations are met, so that
    no decision uses an outdated observation. A creation counts as observed once the runtime
    accepted it or reports the replica. A deletion counts as observed once the replica is gone, has
    ended, or is reported as stopping. Expectations expire after five minutes.

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
        """Record creations and deletions that were requested for a job and are now expected."""
        new_creates, new_deletes = set(creates), set(deletes)
        if not new_creates and not new_deletes:
            return
        with self._lock:
            expected = self._jobs.setdefault(uid, _Expected(set(), set(), 0.0))
            expected.creates |= new_creates
            expected.deletes |= new_deletes
            expected.until = now + self._patience

    def created(self, uid: str, replica: ReplicaId) -> None:
        """Mark a replica's creation as observed.

        Before that, a missing replica counts as still to be created. Afterwards, it counts as
        vanished.
        """
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is not None:
                expected.creates.discard(replica)

    def withdraw(self, uid: str, *replicas: ReplicaId) -> None:
        """Remove the expectations about replicas, because the requests to the runtime failed."""
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is not None:
                expected.creates.difference_update(replicas)
                expected.deletes.difference_update(replicas)

    def outstanding(self, uid: str, replicas: Sequence[Replica], now: float) -> float:
        """Return the seconds until a job's unmet expectations expire.

        Returns 0 if `replicas` meets all expectations of the job, or if the expectations expired.
        """
        with self._lock:
            expected = self._jobs.get(uid)
            if expected is None:
                return 0.0
            seen = {replica.id for replica in replicas}
            staying = {
                replica.id
                for replica in replicas
                if not replica.phase.is_final and not replica.deleting
            }
            expected.creates -= seen
            expected.deletes &= staying
            # A creation that was observed once stays observed, even if the replica then vanishes.
            if (expected.creates or expected.deletes) and now < expected.until:
                return expected.until - now
            del self._jobs[uid]
            return 0.0

    def forget(self, uid: str) -> None:
        """Discard all expectations about a job's replicas."""
        with self._lock:
            self._jobs.pop(uid, None)

"""Schedules periodic reconciliations in case a change notification was lost."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.status import JobStatus, Replica

FIRST_RESYNC = 15.0
LONGEST_RESYNC = 300.0


class _LastReconcile(msgspec.Struct, frozen=True):
    status: JobStatus
    replicas: tuple[Replica, ...]
    delay: float


class Resyncs:
    """Schedules the next periodic reconciliation of each job.

    A job that changed is reconciled again soon. The interval doubles with each reconciliation that
    finds no change. To find changes, each result is compared with the previous result and not with
    the stored status, because the store may omit details such as a pending replica.

    >>> resyncs, status = Resyncs(), JobStatus(admitted=True)
    >>> [resyncs.after("job", status, ()) for _ in range(3)]
    [15.0, 30.0, 60.0]
    >>> resyncs.after("job", msgspec.structs.replace(status, restarts=1), ())
    15.0
    """

    def __init__(self) -> None:
        self._last: dict[
            str, _LastReconcile
        ] = {}  # needs no lock, because only one worker at a time reconciles a job

    def after(self, uid: str, status: JobStatus, replicas: Sequence[Replica]) -> float:
        """Return the seconds until a job's next periodic reconciliation, from the latest result."""
        if not status.admitted:
            return LONGEST_RESYNC  # no replica runs, so no notification can be lost
        timeless = msgspec.structs.replace(status, last_reconcile_time=None)
        last = self._last.get(uid)
        delay = FIRST_RESYNC
        if last is not None and (last.status, last.replicas) == (timeless, tuple(replicas)):
            delay = min(last.delay * 2, LONGEST_RESYNC)
        self._last[uid] = _LastReconcile(timeless, tuple(replicas), delay)
        return delay

    def forget(self, uid: str) -> None:
        """Discard the data about a job's periodic reconciliations."""
        self._last.pop(uid, None)

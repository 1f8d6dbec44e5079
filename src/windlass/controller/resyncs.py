"""Periodic reconciliation of jobs without a notification of a change."""

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
    """The next periodic reconciliation of each job: soon after a change, then at growing intervals.

    Results are compared with the last reconciliation, not with the store, which need not keep every
    detail, such as a pending replica.

    >>> resyncs, status = Resyncs(), JobStatus(admitted=True)
    >>> [resyncs.after("job", status, ()) for _ in range(3)]
    [15.0, 30.0, 60.0]
    >>> resyncs.after("job", msgspec.structs.replace(status, restarts=1), ())
    15.0
    """

    def __init__(self) -> None:
        self._last: dict[
            str, _LastReconcile
        ] = {}  # only one worker at a time uses the entry of a job

    def after(self, uid: str, status: JobStatus, replicas: Sequence[Replica]) -> float:
        """Return the seconds until the next reconciliation, from the result of the last."""
        if not status.admitted:
            return LONGEST_RESYNC  # no replica runs whose change could be missed
        timeless = msgspec.structs.replace(status, last_reconcile_time=None)
        last = self._last.get(uid)
        delay = FIRST_RESYNC
        if last is not None and (last.status, last.replicas) == (timeless, tuple(replicas)):
            delay = min(last.delay * 2, LONGEST_RESYNC)
        self._last[uid] = _LastReconcile(timeless, tuple(replicas), delay)
        return delay

    def forget(self, uid: str) -> None:
        """Discard the state of a job."""
        self._last.pop(uid, None)

"""Resyncs: when a job is looked at again, though nobody told that anything changed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.model.status import JobStatus, Replica

FIRST_RESYNC = 15.0
LONGEST_RESYNC = 300.0


class _Seen(msgspec.Struct, frozen=True):
    status: JobStatus
    replicas: tuple[Replica, ...]
    delay: float


class Resyncs:
    """The double check of each job: soon after a change, and ever later while nothing changes.

    What a look came to is compared with what the last one came to, not with what the store had:
    a store need not keep all of it, as that a replica is pending, which its pod says.

    >>> resyncs, status = Resyncs(), JobStatus(admitted=True)
    >>> [resyncs.after("job", status, ()) for _ in range(3)]
    [15.0, 30.0, 60.0]
    >>> resyncs.after("job", msgspec.structs.replace(status, restarts=1), ())
    15.0
    """

    def __init__(self) -> None:
        self._last: dict[str, _Seen] = {}  # of each job only one worker at a time touches its entry

    def after(self, uid: str, status: JobStatus, replicas: Sequence[Replica]) -> float:
        """Seconds until the next look, after one that came to this."""
        if not status.admitted:
            return LONGEST_RESYNC  # there is nothing out there yet that could be missed
        timeless = msgspec.structs.replace(status, last_reconcile_time=None)
        last = self._last.get(uid)
        delay = FIRST_RESYNC
        if last is not None and (last.status, last.replicas) == (timeless, tuple(replicas)):
            delay = min(last.delay * 2, LONGEST_RESYNC)
        self._last[uid] = _Seen(timeless, tuple(replicas), delay)
        return delay

    def forget(self, uid: str) -> None:
        """The job is over."""
        self._last.pop(uid, None)

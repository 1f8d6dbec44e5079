"""Remembers when each agent last contacted this server process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from windlass.model.status import ReplicaId

_MOST = 50_000  # attempts to remember; those silent for the longest time are dropped first


class AgentsLastSeen:
    """Remembers when each attempt's agent last sent a request. Thread-safe.

    >>> last_seen, first = AgentsLastSeen(clock=lambda: 12.0), ReplicaId("main", 0, 1)
    >>> last_seen.last("c0ffee", first)
    >>> last_seen.note("c0ffee", first)
    >>> last_seen.last("c0ffee", first)
    12.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        # in order of contact, newest last
        self._times: dict[tuple[str, ReplicaId], float] = {}

    def note(self, uid: str, replica: ReplicaId) -> None:
        """Record that an attempt's agent sent a request, directly or through a tunnel."""
        with self._lock:
            self._times.pop((uid, replica), None)
            self._times[uid, replica] = self._clock()
            if len(self._times) > self._most:
                del self._times[next(iter(self._times))]

    def last(self, uid: str, replica: ReplicaId) -> float | None:
        """Return when an attempt's agent last sent a request, or None if it never did."""
        with self._lock:
            return self._times.get((uid, replica))


AGENTS_LAST_SEEN = AgentsLastSeen()
"""The times of the agents' last requests to the server in this process."""

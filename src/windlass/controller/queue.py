"""The work queue, which hands each key to one worker at a time."""

from __future__ import annotations

import heapq
import threading
from collections import deque

from windlass.controller.clock import Clock, SystemClock

FIRST_RETRY = 0.005
LONGEST_RETRY = 60.0
LONGEST_DELAY = 86_400.0  # longer delays are cut, because lock timeouts have an upper limit


class WorkQueue:
    """A queue of keys, such as job IDs, that workers process.

    The queue holds each key at most once. If a key is added while a worker processes that key, the
    key becomes ready again when the worker is done.

    >>> queue = WorkQueue()
    >>> queue.add("a"), queue.add("a"), len(queue)
    (None, None, 1)
    >>> queue.get()
    'a'
    >>> queue.done("a")
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._condition = threading.Condition()
        self._ready: deque[str] = deque()
        self._wanted: set[str] = set()  # keys that are ready, or become ready when a worker is done
        self._working: set[str] = set()
        self._timers: list[tuple[float, str]] = []  # a heap, which may contain outdated entries
        self._due: dict[str, float] = {}  # the time of the valid entry of each key in `_timers`
        self._failures: dict[str, int] = {}
        self._is_shut = False

    def __len__(self) -> int:
        """Return the number of ready keys."""
        with self._condition:
            self._fire_timers()
            return len(self._ready)

    @property
    def is_quiet(self) -> bool:
        """True if no key is ready and no worker processes a key.

        Keys whose delay has not ended do not count.
        """
        with self._condition:
            self._fire_timers()
            return not self._ready and not self._working

    @property
    def is_shut(self) -> bool:
        """True if the queue was shut down."""
        return self._is_shut

    def add(self, key: str) -> None:
        """Add a key to the work queue, so that the next worker gets it."""
        with self._condition:
            self._add(key)

    def add_after(self, key: str, delay: float) -> None:
        """Make a key ready after a delay in seconds.

        If a key has several delays, the delay that ends first applies. A delay of more than one day
        is cut to one day. The worker that then gets the key can delay it again.
        """
        with self._condition:
            if self._is_shut:
                return
            if delay <= 0:
                self._add(key)
                return
            due = self._clock.monotonic() + min(LONGEST_DELAY, delay)
            if self._due.get(key, due + 1) <= due:
                return
            self._due[key] = due
            heapq.heappush(self._timers, (due, key))
            self._condition.notify()

    def add_rate_limited(self, key: str) -> None:
        """Make a failed key ready again after a delay that doubles with each failure."""
        with self._condition:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY * 2.0 ** min(failures, 32), LONGEST_RETRY))

    def forget(self, key: str) -> None:
        """Reset a key's failure count to zero."""
        with self._condition:
            self._failures.pop(key, None)

    def cancel(self, key: str) -> None:
        """Cancel the delayed addition of a key to the work queue."""
        with self._condition:
            self._due.pop(key, None)

    def get(self, timeout: float | None = None) -> str | None:
        """Wait for a key and return it. The worker must call `done` after processing the key.

        Returns None after `timeout` seconds or after a shutdown.
        """
        with self._condition:
            end = None if timeout is None else self._clock.monotonic() + timeout
            while not self._is_shut:
                self._fire_timers()
                if self._ready:
                    return self._take()
                now = self._clock.monotonic()
                waits = [due - now for due in (end, self._next_timer()) if due is not None]
                if end is not None and end <= now:
                    return None
                self._clock.wait(self._condition, min(waits, default=None))
            return None

    def done(self, key: str) -> None:
        """Finish processing a key. If the key was added meanwhile, it becomes ready again."""
        with self._condition:
            self._working.discard(key)
            if key in self._wanted:
                self._ready.append(key)
                self._condition.notify()

    def shutdown(self) -> None:
        """Shut the work queue down and wake all waiting workers."""
        with self._condition:
            self._is_shut = True
            self._condition.notify_all()

    def _add(self, key: str) -> None:
        if self._is_shut or key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._working:
            self._ready.append(key)
            self._condition.notify()

    def _take(self) -> str:
        key = self._ready.popleft()
        self._wanted.discard(key)
        self._working.add(key)
        if self._ready or self._timers:
            # Perhaps only this worker was woken. Wake another worker for the remaining keys.
            self._condition.notify()
        return key

    def _next_timer(self) -> float | None:
        while self._timers and self._due.get(self._timers[0][1]) != self._timers[0][0]:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def _fire_timers(self) -> None:
        now = self._clock.monotonic()
        while (due := self._next_timer()) is not None and due <= now:
            _, key = heapq.heappop(self._timers)
            del self._due[key]
            self._add(key)

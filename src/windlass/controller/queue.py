"""The work queue: which jobs are due for a look, each once, none by two workers at a time."""

from __future__ import annotations

import heapq
import threading
from collections import deque

from windlass.controller.clock import Clock, SystemClock

FIRST_RETRY = 0.005
LONGEST_RETRY = 60.0
LONGEST_DELAY = 86_400.0  # whoever is due later is looked at meanwhile: no lock waits for ever


class WorkQueue:
    """Keys to be worked on. A key added while it is worked on comes once more after.

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
        self._wanted: set[str] = set()  # ready, or to be made ready when its work is done
        self._working: set[str] = set()
        self._timers: list[tuple[float, str]] = []  # a heap; may hold entries that no longer count
        self._due: dict[str, float] = {}  # the one entry of each key that counts
        self._failures: dict[str, int] = {}
        self._is_shut = False

    def __len__(self) -> int:
        """How many keys are ready to be worked on."""
        with self._condition:
            self._fire_timers()
            return len(self._ready)

    @property
    def is_quiet(self) -> bool:
        """Whether no key is ready, nor being worked on; delayed ones may be waiting."""
        with self._condition:
            self._fire_timers()
            return not self._ready and not self._working

    @property
    def is_shut(self) -> bool:
        """Whether nothing comes out any more."""
        return self._is_shut

    def add(self, key: str) -> None:
        """Have a key worked on, soon."""
        with self._condition:
            self._add(key)

    def add_after(self, key: str, delay: float) -> None:
        """Have a key worked on after so many seconds; of several such times the earliest holds.

        One that is due in more than a day comes after a day, and can be added again.
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
        """Have a key that failed worked on again, each time after twice the time."""
        with self._condition:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        self.add_after(key, min(FIRST_RETRY * 2.0 ** min(failures, 32), LONGEST_RETRY))

    def forget(self, key: str) -> None:
        """A key succeeded: its next failure is its first."""
        with self._condition:
            self._failures.pop(key, None)

    def cancel(self, key: str) -> None:
        """Let a key's delay lapse: nothing comes of it any more."""
        with self._condition:
            self._due.pop(key, None)

    def get(self, timeout: float | None = None) -> str | None:
        """The next key, to be given back with `done`; none after the timeout or the shutdown."""
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
        """The work on a key is over; if it was added meanwhile it is ready again."""
        with self._condition:
            self._working.discard(key)
            if key in self._wanted:
                self._ready.append(key)
                self._condition.notify()

    def shutdown(self) -> None:
        """Let all who wait go; nothing comes out any more."""
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
            # Whoever was woken for the next timer may be the one who is leaving with a key.
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

"""One lock per job, which prevents its objects from being created and deleted at the same time.

A deletion that did not wait for a running creation would find nothing to delete and would leave the
new object behind.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class JobLocks:
    """A lock per job, which is shared to create an object and exclusive to delete all objects.

    >>> turns = JobLocks()
    >>> with turns.shared("a"), turns.shared("a"), turns.exclusive("b"):
    ...     "of other jobs nobody waits"
    'of other jobs nobody waits'
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together: Counter[str] = Counter()
        self._alone: set[str] = set()

    @contextmanager
    def shared(self, uid: str) -> Iterator[None]:
        """Hold the job's lock in shared mode while one of its objects is created."""
        with self._changed:
            self._changed.wait_for(lambda: uid not in self._alone)
            self._together[uid] += 1
        try:
            yield
        finally:
            with self._changed:
                self._together[uid] -= 1
                if not self._together[uid]:
                    del self._together[uid]
                self._changed.notify_all()

    @contextmanager
    def exclusive(self, uid: str) -> Iterator[None]:
        """Hold the job's lock in exclusive mode while all its objects are deleted."""
        with self._changed:
            self._changed.wait_for(lambda: uid not in self._alone and uid not in self._together)
            self._alone.add(uid)
        try:
            yield
        finally:
            with self._changed:
                self._alone.discard(uid)
                self._changed.notify_all()

"""Turns: what is made for a job, and the release of all that it has, are never at the same time.

A release that does not wait for what is being made would find nothing to remove, and leave it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """By job: many may make something for it at a time, whoever releases it is alone.

    >>> turns = Turns()
    >>> with turns.together("a"), turns.together("a"), turns.alone("b"):
    ...     "of other jobs nobody waits"
    'of other jobs nobody waits'
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together: Counter[str] = Counter()
        self._alone: set[str] = set()

    @contextmanager
    def together(self, uid: str) -> Iterator[None]:
        """While something is made for a job."""
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
    def alone(self, uid: str) -> Iterator[None]:
        """While all that a job has is removed."""
        with self._changed:
            self._changed.wait_for(lambda: uid not in self._alone and uid not in self._together)
            self._alone.add(uid)
        try:
            yield
        finally:
            with self._changed:
                self._alone.discard(uid)
                self._changed.notify_all()

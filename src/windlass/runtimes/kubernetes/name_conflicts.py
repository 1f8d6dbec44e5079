"""Waits until foreign pods release names that our own pods need.

The normal watch of a namespace contains only our own pods, so each conflict needs its own watch.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from functools import partial

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.watch import Watcher
from windlass.runtimes.kubernetes.retry_queue import RetryQueue


class NameConflicts:
    """Wakes a task in the retry queue as soon as the pod that blocks the task is deleted."""

    def __init__(self, retries: RetryQueue) -> None:
        self._retries = retries
        self._lock = threading.Lock()
        self._watchers: dict[Hashable, Watcher] = {}  # by task key

    def wait_for(self, key: Hashable, connection: Connection, namespace: str, name: str) -> None:
        """Watch the pod that blocks a task unless the task already has a watch."""
        with self._lock:
            if key in self._watchers:
                return
            watcher = Watcher(
                connection,
                PODS,
                namespace=namespace,
                name=name,
                on_change=lambda _before, after: self._changed(key, is_there=after is not None),
            )
            self._watchers[key] = watcher
        watcher.start()
        check = partial(self._see_if_gone, key, watcher, name)
        self._retries.do(("obstacle", key), check)

    def forget(self, key: Hashable) -> None:
        """Stop the watch of the pod that blocks a task."""
        with self._lock:
            watcher = self._watchers.pop(key, None)
        if watcher is not None:
            watcher.stop(timeout=0)

    def close(self) -> None:
        """Stop all watches of pods that block tasks."""
        for key in list(self._watchers):
            self.forget(key)

    def _changed(self, key: Hashable, *, is_there: bool) -> None:
        if not is_there:
            self._retries.wake(key)

    def _see_if_gone(self, key: Hashable, watcher: Watcher, name: str) -> None:
        """Wake the task if its pod was deleted before the watch started.

        The watch reports no event for such a pod.
        """
        with self._lock:
            is_over = self._watchers.get(key) is not watcher
        if is_over:
            return
        if not watcher.synced.wait(1.0):
            again = partial(self._see_if_gone, key, watcher, name)
            self._retries.do(("obstacle", key), again, after=0.2)
        elif watcher.at(watcher.namespace, name) is None:
            self._retries.wake(key)

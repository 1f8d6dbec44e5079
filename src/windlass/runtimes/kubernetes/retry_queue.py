"""A queue of actions in a cluster. A few threads run each action and repeat it until it succeeds.

The controller never waits for a cluster, because a cluster that does not answer must not delay jobs
on other backends.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import NamedTuple

from windlass.kube.explanation import one_line_error
from windlass.model.errors import KubernetesError, WindlassError

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
TOO_MANY = 429  # the status of a busy API server
_log = logging.getLogger(__name__)


class TaskFailure(NamedTuple):
    """A failed task's error message, once without and once with a hint."""

    message: str = ""
    message_with_hint: str = ""
    is_busy: bool = False  # the cluster responded with the status "too many requests"


class RetryQueue:
    """Runs tasks in background threads. At most one task per key runs at a time.

    A new task replaces a waiting task with the same key.

    >>> retries, done = RetryQueue(), threading.Event()
    >>> retries.do("greet", done.set)
    >>> done.wait(10)
    True
    >>> retries.close()
    """

    def __init__(self, workers: int = 4, on_failure: Callable[[Hashable], None] | None = None):
        self._most = workers
        self._on_failure = on_failure or (lambda _key: None)
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Hashable]] = []
        self._wanted: dict[Hashable, tuple[int, Callable[[], object]]] = {}
        self._failures: dict[Hashable, tuple[int, TaskFailure]] = {}
        self._busy: set[Hashable] = set()
        self._parked: set[Hashable] = set()  # due once the running task with this key ends
        self._woken: set[Hashable] = set()  # running tasks to repeat at once if they fail
        self._numbers = itertools.count()
        self._threads: list[threading.Thread] = []
        self._is_closed = False

    def do(self, key: Hashable, act: Callable[[], object], *, after: float = 0.0) -> None:
        """Schedule a task in the retry queue. It replaces any scheduled task with the same key."""
        with self._changed:
            if self._is_closed:
                return
            self._plan(key, act, after)
            is_short = len(self._busy) >= len(self._threads) or not self._threads
            if is_short and len(self._threads) < self._most:
                name = f"kubernetes-{len(self._threads)}"
                thread = threading.Thread(target=self._run, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()

    def forget(self, key: Hashable) -> None:
        """Remove a scheduled task from the retry queue. A running task continues to its end."""
        with self._changed:
            self._wanted.pop(key, None)
            self._failures.pop(key, None)

    def wake(self, *keys: Hashable) -> None:
        """Repeat the failed tasks with these keys now. Without keys, repeat all failed tasks.

        A task that is running now is repeated at once if it fails.
        """
        with self._changed:
            for key in keys or list(self._failures):
                if key in self._busy:
                    self._woken.add(key)
                elif key in self._failures and key in self._wanted:
                    self._failures[key] = (0, self._failures[key][1])
                    self._plan(key, self._wanted[key][1], 0.0)

    def is_wanted(self, key: Hashable) -> bool:
        """Return whether a task is scheduled or running."""
        with self._changed:
            return key in self._wanted or key in self._busy

    def failure(self, key: Hashable) -> TaskFailure:
        """Return an unfinished task's last failure, or an empty failure if there is none."""
        with self._changed:
            return self._failures.get(key, (0, TaskFailure()))[1]

    def close(self, timeout: float = 2.0) -> None:
        """Start no more tasks of the retry queue."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout)

    def _plan(self, key: Hashable, act: Callable[[], object], after: float) -> None:
        number = next(self._numbers)
        self._wanted[key] = (number, act)
        heapq.heappush(self._due, (time.monotonic() + after, number, key))
        self._changed.notify()

    def _run(self) -> None:
        while True:
            task = self._next()
            if task is None:
                return
            key, act = task
            failure = TaskFailure()
            try:
                act()
            except Exception as error:  # noqa: BLE001 -- any error is stored for a retry
                failure = to_failure(error)
                if not isinstance(error, WindlassError):
                    _log.exception("a background task in a cluster failed")
            self._finish(key, act, failure)

    def _next(self) -> tuple[Hashable, Callable[[], object]] | None:
        """Wait for the next due task and return it, or return None when the queue is closed."""
        with self._changed:
            while not self._is_closed:
                wait = None
                while self._due:
                    at, number, key = self._due[0]
                    wait = at - time.monotonic()
                    if wait > 0:
                        break
                    heapq.heappop(self._due)
                    wait = None
                    wanted = self._wanted.get(key)
                    if wanted is None or wanted[0] != number:
                        continue  # the task was removed or replaced
                    if key in self._busy:
                        self._parked.add(key)
                        continue
                    del self._wanted[key]
                    self._busy.add(key)
                    return key, wanted[1]
                self._changed.wait(wait)
        return None

    def _finish(self, key: Hashable, act: Callable[[], object], failure: TaskFailure) -> None:
        is_news = False
        with self._changed:
            self._busy.discard(key)
            is_woken = key in self._woken
            self._woken.discard(key)
            if not failure.message:
                self._failures.pop(key, None)
            else:
                count, before = self._failures.get(key, (0, TaskFailure()))
                is_news, count = failure != before, count + 1
                self._failures[key] = (count, failure)
                if key not in self._wanted:  # no newer task replaces this task
                    longest = 0.0 if is_woken else LONGEST_PAUSE
                    pause = min(FIRST_PAUSE * 2.0 ** min(count - 1, 16), longest)
                    self._plan(key, act, pause)
            if key in self._parked:
                self._parked.discard(key)
                if key in self._wanted:
                    self._plan(key, self._wanted[key][1], 0.0)
            self._changed.notify()
        if failure.message:
            level = logging.WARNING if is_news else logging.DEBUG
            _log.log(level, "in a cluster: %s", failure.message)
            self._on_failure(key)


def to_failure(error: Exception) -> TaskFailure:
    """Convert an error into a `TaskFailure`."""
    if isinstance(error, WindlassError):
        is_busy = isinstance(error, KubernetesError) and error.status == TOO_MANY
        return TaskFailure(error.message or type(error).__name__, one_line_error(error), is_busy)
    message = f"{type(error).__name__}: {error}"
    return TaskFailure(message, message)

"""Shares one run of a slow operation between concurrent callers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAttempt(Generic[T]):
    """Runs a function in its own thread, one attempt at a time; all callers share its outcome.

    >>> connecting = SharedAttempt(lambda: "a connection")
    >>> connecting.result()
    'a connection'
    """

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._lock = threading.Lock()
        self._under_way: tuple[Future[T], float] | None = None  # and when it was begun

    def result(self) -> T:
        """Return the result of the running attempt, or of a new one; raise its error."""
        return self._joined()[0].result()

    def soon(self, seconds: float) -> T | None:
        """Return the result, or None if the attempt takes longer than this from its start.

        So later callers wait for a shorter time, and not at all for an attempt that hangs.
        """
        outcome, began = self._joined()
        wait([outcome], timeout=max(began + seconds - time.monotonic(), 0.0))
        return outcome.result() if outcome.done() else None

    def _joined(self) -> tuple[Future[T], float]:
        with self._lock:
            if self._under_way is None:
                self._under_way = Future(), time.monotonic()
                args = (self._under_way[0],)
                threading.Thread(target=self._run, args=args, name="try", daemon=True).start()
            return self._under_way

    def _run(self, outcome: Future[T]) -> None:
        try:
            result = self._act()
        except BaseException as error:  # noqa: BLE001 -- all errors go to the waiting callers
            self._end()
            outcome.set_exception(error)
        else:
            self._end()
            outcome.set_result(result)

    def _end(self) -> None:
        # Before the result is visible: a caller that comes after it starts a new attempt.
        with self._lock:
            self._under_way = None

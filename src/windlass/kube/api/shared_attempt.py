"""Lets several callers share one run of a slow function."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedAttempt(Generic[T]):
    """Runs a slow function in its own thread, at most once at a time.

    All callers that wait for the same run get the same result or error.

    >>> connecting = SharedAttempt(lambda: "a connection")
    >>> connecting.result()
    'a connection'
    """

    def __init__(self, act: Callable[[], T]) -> None:
        self._act = act
        self._lock = threading.Lock()
        # the running attempt, and its start time
        self._under_way: tuple[Future[T], float] | None = None

    def result(self) -> T:
        """Return the result of the running attempt, starting an attempt if none runs.

        If the attempt fails, its error is raised.
        """
        return self._joined()[0].result()

    def soon(self, seconds: float) -> T | None:
        """Return the result, or None if `seconds` have passed since the attempt started.

        The time counts from the start of the attempt. Later callers therefore wait for a shorter
        time, or not at all if the attempt hangs.
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
        # End the attempt before its result is visible, so that a caller that sees the result can
        # start a new attempt.
        with self._lock:
            self._under_way = None

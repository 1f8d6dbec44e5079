"""The controller's clock. Tests replace it with a clock that they set by hand."""

from __future__ import annotations

import threading
import time
from typing import Protocol

# CLOCK_BOOTTIME never jumps and continues while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A clock that returns wall time and monotonic time, and can wait."""

    def now(self) -> float:
        """Return the seconds since the epoch. Records store this time."""
        ...

    def monotonic(self) -> float:
        """Return the seconds on a clock that never jumps or decreases. Delays use this time."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait until the condition is notified, for at most `timeout` seconds.

        The caller must hold the condition's lock.
        """
        ...


class SystemClock:
    """The system clock of this machine.

    >>> SystemClock().now() > 1_700_000_000
    True
    """

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        condition.wait(timeout)

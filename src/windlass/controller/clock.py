"""The clock of the controller: wall time, monotonic time, and waiting."""

from __future__ import annotations

import threading
import time
from typing import Protocol

# CLOCK_BOOTTIME never jumps and continues while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A clock to read and to wait on."""

    def now(self) -> float:
        """Return seconds since the epoch, for records."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never jump or decrease, for delays."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a held condition until it is notified or the timeout in seconds passes."""
        ...


class SystemClock:
    """The machine's own clock.

    >>> SystemClock().now() > 1_700_000_000
    True
    """

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        condition.wait(timeout)

"""The clock of the controller: wall time, monotonic time, and waiting."""

from __future__ import annotations

import threading
import time
from typing import Protocol

# Of those that never jump, the one that goes on while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """A clock that can be read and waited by."""

    def now(self) -> float:
        """Seconds since the epoch, for records."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow, and never jump, for delays."""
        ...

    def wait(self, condition: threading.Condition, timeout: float | None) -> None:
        """Wait on a condition that is held, until it is notified or so many seconds passed."""
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

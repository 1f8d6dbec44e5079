"""Poll for conditions, and wait for the end of processes by kernel notification."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable


class NeverHappenedError(Exception):
    """A condition did not hold in time."""


def wait_until(holds: Callable[[], bool], what: str, *, timeout: float = 60.0) -> None:
    """Return as soon as a condition holds.

    >>> wait_until(lambda: True, "nothing is amiss")
    >>> wait_until(lambda: False, "pigs fly", timeout=0)
    Traceback (most recent call last):
    on_kubernetes.cluster.wait.NeverHappenedError: Not within 0 s: pigs fly.
    """
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() >= deadline:
            raise NeverHappenedError(f"Not within {timeout:g} s: {what}.")
        time.sleep(0.02)


def end_process(pid: int, how: signal.Signals, *, patience: float = 30.0) -> None:
    """Send a signal to a process and return when it is gone. Kill the process after a timeout."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(handle, how)
        if select.select([handle], [], [], patience)[0]:
            return
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], 60)[0]:
            raise NeverHappenedError(f"Process {pid} outlived SIGKILL by a minute.")
    except ProcessLookupError:
        pass  # it ended in the meantime
    finally:
        os.close(handle)

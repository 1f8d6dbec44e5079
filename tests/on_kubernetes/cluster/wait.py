"""Waiting for what nothing tells us about, and for the end of processes, which the kernel tells."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable


class NeverHappenedError(Exception):
    """What was waited for did not happen in time."""


def wait_until(holds: Callable[[], bool], what: str, *, timeout: float = 60.0) -> None:
    """Return as soon as something holds.

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
    """Send a process a signal and return when it is gone; it is killed if that takes too long."""
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
        pass  # it went in the meantime
    finally:
        os.close(handle)

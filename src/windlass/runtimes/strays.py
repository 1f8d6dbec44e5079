"""Processes that outlived their supervisor: found by what they carry, never by pid alone."""

from __future__ import annotations

import os
import signal
import time

import psutil

from windlass.worker.family import DETACHED
from windlass.worker.identity import is_alive

_PATIENCE = 10.0


def send_signal(pid: int, identity: str, number: int) -> bool:
    """Signal the very process of that identity, never another that has its pid by now."""
    if not hasattr(os, "pidfd_open"):
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        # A kernel without them.
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        # The descriptor names one process for good: what we check is what we signal.
        if not is_alive(pid, identity):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_strays(marker: str, process: tuple[int, str] | None) -> bool:
    """Kill all processes of an attempt; whether all are gone.

    They are found by the marker in their environment, and by the process group of the
    first of them, if that is still the one it was.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        left = find_strays(marker, process)
        if not left:
            return True
        for stray in left:
            _kill(stray.pid, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)
        if time.monotonic() > until:
            return False


def find_strays(marker: str, process: tuple[int, str] | None) -> list[psutil.Process]:
    """The processes of an attempt that run on this machine."""
    group = process[0] if process is not None and is_alive(*process) else None
    return [each for each in psutil.process_iter() if _belongs(each, marker, group)]


def _belongs(process: psutil.Process, marker: str, group: int | None) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        if group is not None and os.getpgid(process.pid) == group:
            return True
        environ = process.environ()
        return environ.get("WINDLASS_REPLICA") == marker and DETACHED not in environ
    except (psutil.Error, OSError):
        return False


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

"""Finds and kills processes that outlived their supervisor.

Because pids are reused, a process is identified by a marker in its environment or by its session.
"""

from __future__ import annotations

import os
import signal
import time

import psutil

from windlass.worker.common.process_identity import is_alive, process_identity
from windlass.worker.common.process_tree import DETACHED

_PATIENCE = 10.0
_LATE = 30.0  # seconds that a heartbeat, due every 5 s, may be late on a busy machine


def send_signal(pid: int, identity: str, number: int) -> bool:
    """Send a signal to a process unless it has ended and a different process has its pid."""
    if not hasattr(os, "pidfd_open"):
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        # This kernel has no pidfds.
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        # The descriptor always refers to the same process, so no other process can get the signal.
        if not is_alive(pid, identity):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_strays(marker: str, process: tuple[int, str] | None, last_beat: float) -> bool:
    """Kill all of an attempt's processes that still run. Return whether none is left.

    A process belongs to the attempt in either of two cases. First, its environment contains the
    marker. Second, it is in the session of `process`, the attempt's first process, and started
    before the supervisor's last heartbeat. The second case excludes later processes, because the
    kernel might have given their session the same number. A process that left both the environment
    and the session (`env -i setsid ...`) is not found.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        left = find_strays(marker, process, last_beat)
        if not left:
            return True
        for stray in left:
            _kill(stray.pid, signal.SIGKILL)
        psutil.wait_procs(left, timeout=0.2)
        if time.monotonic() > until:
            return False


def find_strays(
    marker: str, process: tuple[int, str] | None, last_beat: float
) -> list[psutil.Process]:
    """Return an attempt's processes that run on this machine."""
    session = _session_of(process)
    born_by = last_beat + _LATE
    strays = []
    for pid in psutil.pids():  # not `process_iter`, because it caches a pid's earlier processes
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            continue
        if _belongs(process, marker, session, born_by):
            strays.append(process)
    return strays


def _session_of(process: tuple[int, str] | None) -> int | None:
    """Return the id of the session that a process led, or None if the id may have been reused.

    The kernel does not reuse a session's id while the session has members. During that time, either
    the leader is alive or no process has the leader's pid. Afterwards, a new session may get the
    id. After the machine restarts, old ids are invalid.
    """
    if process is None:
        return None
    pid, identity = process
    if is_alive(pid, identity):
        return pid
    is_same_boot = process_identity(os.getpid()).rpartition("@")[2] == identity.rpartition("@")[2]
    return pid if is_same_boot and not _is_running(pid) else None


def _is_running(pid: int) -> bool:
    """Return whether a process with this pid runs. A zombie does not count as running."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _belongs(process: psutil.Process, marker: str, session: int | None, born_by: float) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        groups = (os.getsid(process.pid), os.getpgid(process.pid))
        if session in groups and process.create_time() <= born_by:
            return True
        environ = process.environ()
        return bool(environ.get("WINDLASS_REPLICA") == marker and environ.get(DETACHED) != "1")
    except (psutil.Error, ProcessLookupError, PermissionError):
        return False  # the process has ended, or belongs to another user


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

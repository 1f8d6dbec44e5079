"""Processes that outlived their supervisor, identified by marker and session, not by pid alone."""

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
    """Signal the process with this identity, never another one that reuses its pid."""
    if not hasattr(os, "pidfd_open"):
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    except OSError:
        # A kernel without pidfds.
        return is_alive(pid, identity) and _kill(pid, number)
    try:
        # The descriptor refers to one process for ever, so the checked process gets the signal.
        if not is_alive(pid, identity):
            return False
        signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(fd)
    return True


def kill_strays(marker: str, process: tuple[int, str] | None, last_beat: float) -> bool:
    """Kill all processes of an attempt; return whether none is left.

    Processes are found by the marker in their environment, and by the session of the first process,
    if they started before the supervisor's last heartbeat: later sessions may reuse the number. A
    process that left both (`env -i setsid ...`) without a supervisor is not found.
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
    """Return the processes of an attempt that run on this machine."""
    session = _session_of(process)
    born_by = last_beat + _LATE
    strays = []
    for pid in psutil.pids():  # `process_iter` caches earlier owners of a pid
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            continue
        if _belongs(process, marker, session, born_by):
            strays.append(process)
    return strays


def _session_of(process: tuple[int, str] | None) -> int | None:
    """Return the session that a process led, unless its number may refer to another by now.

    The kernel does not reuse the number of a session that has members: until they end, either the
    leader lives or nobody has its pid. Afterwards, another process may lead a session of that
    number. A restart of the machine invalidates all numbers.
    """
    if process is None:
        return None
    pid, identity = process
    if is_alive(pid, identity):
        return pid
    is_same_boot = process_identity(os.getpid()).rpartition("@")[2] == identity.rpartition("@")[2]
    return pid if is_same_boot and not _is_running(pid) else None


def _is_running(pid: int) -> bool:
    """Return whether a process with that pid runs. A zombie does not."""
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
        return False  # it has ended, or belongs to another user


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

"""Finds and kills processes that outlived their supervisor.

A pid may be reused, so a process is identified by a marker in its environment or by its session.
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
    """Send a signal to a process, unless the process has ended and another process has its pid."""
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
    """Kill all processes of an attempt. Return whether none is left.

    A process belongs to the attempt if its environment has the marker. It also belongs to the
    attempt if it is in the session of the attempt's first process, and started before the
    supervisor's last heartbeat. A later process may be in a new session with the same number. A
    process that left both (`env -i setsid ...`) is not found.
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
    for pid in psutil.pids():  # not `process_iter`, which caches earlier owners of a pid
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            continue
        if _belongs(process, marker, session, born_by):
            strays.append(process)
    return strays


def _session_of(process: tuple[int, str] | None) -> int | None:
    """Return the session id that belongs to a process, or None if another session may have the id.

    The kernel does not reuse the id of a session that has members. Until they end, either the
    leader lives, or no process has its pid. Afterwards, another process may lead a session with
    that id. After a restart of the machine, no old id is valid.
    """
    if process is None:
        return None
    pid, identity = process
    if is_alive(pid, identity):
        return pid
    is_same_boot = process_identity(os.getpid()).rpartition("@")[2] == identity.rpartition("@")[2]
    return pid if is_same_boot and not _is_running(pid) else None


def _is_running(pid: int) -> bool:
    """Return whether a process with that pid runs. A zombie does not count."""
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

"""Processes that outlived their supervisor, identified by marker and session, not by pid alone."""

from __future__ import annotations

import os
import signal
import time

import psutil

from windlass.worker.common.process_identity import is_alive, process_identity
from windlass.worker.common.process_tree import DETACHED

_PATIENCE = 10.0
_LATE = 30.0  # that a supervisor's heartbeat, due every 5 s, may come late on a busy machine


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


def kill_strays(marker: str, process: tuple[int, str] | None, last_beat: float) -> bool:
    """Kill all processes of an attempt; whether all are gone.

    They are found by the marker in their environment, and by the session that the first of
    them led, if they are of the time of its supervisor's last heartbeat: later the number may
    be another's. What left both (`env -i setsid ...`) without a supervisor to see it is not
    found.
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
    """The processes of an attempt that run on this machine."""
    session = _session_of(process)
    born_by = last_beat + _LATE
    strays = []
    for pid in psutil.pids():  # not `process_iter`, which remembers whoever had the number before
        try:
            process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            continue
        if _belongs(process, marker, session, born_by):
            strays.append(process)
    return strays


def _session_of(process: tuple[int, str] | None) -> int | None:
    """The session that a process led, if its number can mean no other by now.

    The kernel gives no process the number of a session that still has members: while they
    are there either the leader lives, or nobody has its pid. Once they are gone somebody else
    may come to lead a session of that number. After a restart of the machine all is void.
    """
    if process is None:
        return None
    pid, identity = process
    if is_alive(pid, identity):
        return pid
    is_same_boot = process_identity(os.getpid()).rpartition("@")[2] == identity.rpartition("@")[2]
    return pid if is_same_boot and not _is_running(pid) else None


def _is_running(pid: int) -> bool:
    """Whether some process has that pid and has not ended; a zombie has."""
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
    except (psutil.Error, OSError):
        return False


def _kill(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

"""Process identities, which reveal whether a pid has been reused by another process."""

from __future__ import annotations

import os
import select
import sys
import time

from windlass.worker.common.file_reads import read_process_file

_boot_id = ""


def process_identity(pid: int) -> str:
    """Return text that identifies a process forever, or "" if the process has ended.

    If this raises `OSError`, the process may still be running.

    >>> process_identity(os.getpid()) == process_identity(os.getpid()) != ""
    True
    >>> process_identity(2**22 + 1)
    ''
    """
    if sys.platform == "linux":
        fields = _stat_fields(pid)
        # A zombie counts as ended, because nothing but its exit status is left.
        if fields is None or fields[0] in (b"Z", b"X"):
            return ""
        return f"{int(fields[19])}@{_boot()}"
    return _start_by_ps(pid)


def is_alive(pid: int, identity: str) -> bool:
    """Return whether the process with this pid and identity is still running.

    >>> is_alive(os.getpid(), process_identity(os.getpid()))
    True
    >>> is_alive(os.getpid(), "12345@another-boot")
    False
    """
    return identity != "" and process_identity(pid) == identity


def wait_for_end(pid: int, identity: str, timeout: float) -> bool:
    """Wait until the process with this pid and identity has ended. Return whether it has ended.

    >>> wait_for_end(os.getpid(), process_identity(os.getpid()), 0.01)
    False
    >>> wait_for_end(2**22 + 1, "12345@another-boot", 1)
    True
    """
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except (AttributeError, OSError):  # not Linux, or an old kernel without pidfds
        deadline = time.monotonic() + timeout
        while is_alive(pid, identity) and time.monotonic() < deadline:
            time.sleep(0.01)
        return not is_alive(pid, identity)
    try:
        # A pidfd always refers to the same process, and becomes readable when the process ends.
        if is_alive(pid, identity):
            ended = select.poll()
            ended.register(process, select.POLLIN)
            ended.poll(timeout * 1000)
        return not is_alive(pid, identity)
    finally:
        os.close(process)


def _stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/<pid>/stat, starting with the third field (the state)."""
    try:
        text = read_process_file(pid, "stat")
    except PermissionError:
        if os.stat(f"/proc/{pid}").st_uid == os.geteuid():
            raise
        text = None  # another user's process now has this pid
    if text is None:
        return None
    # The second field is the process name in parentheses, which may contain any character.
    return text[text.rindex(b")") + 2 :].split()


def _boot() -> str:
    global _boot_id
    if not _boot_id:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                _boot_id = file.read().strip()
        except FileNotFoundError:
            _boot_id = "unknown"
    return _boot_id


def _start_by_ps(pid: int) -> str:
    import subprocess

    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    state, _, start = answer.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else " ".join(start.split())

"""Finds the process that holds a file lock, so that a message about a wait can name it."""

from __future__ import annotations

import os

_LONGEST_COMMAND = 60  # characters


def find_holder(path: str | os.PathLike[str]) -> int | None:
    """Return the process that holds a file's lock, or None if no holder is known.

    The holder is known only on Linux, which lists all locks.

    >>> find_holder("/proc/self/status") is None
    True
    """
    try:
        status = os.stat(path)
        with open("/proc/locks") as file:
            locks = [line.split() for line in file]
    except OSError:
        return None
    for lock in locks:
        # In lines about processes that wait for the lock, the second field is "->".
        if lock[1] == "FLOCK" and lock[5].endswith(f":{status.st_ino}"):
            pid = int(lock[4])
            if pid > 0 and _has_open(pid, status):
                return pid
    return None


def describe_process(pid: int | None) -> str:
    """Return a process's pid and command as text for a message.

    >>> describe_process(None)
    'another process'
    """
    if pid is None:
        return "another process"
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            command = file.read(4096).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        command = ""
    if not command:
        return f"process {pid}"
    printable = "".join(c if c.isprintable() else "?" for c in command)
    cut = len(printable) > _LONGEST_COMMAND
    return f"process {pid} ({printable[:_LONGEST_COMMAND]}{'…' if cut else ''})"


def _has_open(pid: int, status: os.stat_result) -> bool:
    """Return whether a process has a file open.

    The inode number in the list of locks does not suffice, because files on two disks may share it.
    """
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    for name in names:
        try:
            if os.path.samestat(os.stat(f"{folder}/{name}"), status):
                return True
        except OSError:
            continue
    return False

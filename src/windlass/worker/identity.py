"""Which process a pid means: the kernel's start time of it, so that a reused pid is seen."""

from __future__ import annotations

import os
import sys

_boot_id = ""


def process_identity(pid: int) -> str:
    """What tells this process from all others that had or will have its pid; "" if it is gone.

    >>> process_identity(os.getpid()) == process_identity(os.getpid()) != ""
    True
    >>> process_identity(2**22 + 1)
    ''
    """
    if sys.platform == "linux":
        fields = _stat_fields(pid)
        # A zombie has ended: only its exit status is left.
        if fields is None or fields[0] in (b"Z", b"X"):
            return ""
        return f"{int(fields[19])}@{_boot()}"
    return _start_by_ps(pid)


def is_alive(pid: int, identity: str) -> bool:
    """Whether the very process of that identity still runs.

    >>> is_alive(os.getpid(), process_identity(os.getpid()))
    True
    >>> is_alive(os.getpid(), "12345@another-boot")
    False
    """
    return identity != "" and process_identity(pid) == identity


def _stat_fields(pid: int) -> list[bytes] | None:
    """The fields of /proc/<pid>/stat from the third (state) on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    # The second field is the name in parentheses, and may hold anything.
    return text[text.rindex(b")") + 2 :].split()


def _boot() -> str:
    global _boot_id
    if not _boot_id:
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                _boot_id = file.read().strip()
        except OSError:
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

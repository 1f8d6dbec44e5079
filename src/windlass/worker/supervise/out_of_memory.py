"""Detects out-of-memory kills from the kernel's counters before and after a run."""

from __future__ import annotations

import sys


def oom_kills() -> int:
    """Return the number of out-of-memory kills that may concern this process.

    This is the sum of the counters for our control group and for the whole machine. Only an
    increase is meaningful.

    >>> oom_kills() <= oom_kills()
    True
    """
    if sys.platform != "linux":
        return 0
    paths = ["/proc/vmstat", *_of_group("memory.events", "memory.oom_control")]
    return sum(_counter(_read(path)) for path in paths)


def why_killed() -> str:
    """Return a message about an out-of-memory kill, including the memory limit.

    >>> "memory" in why_killed()
    True
    """
    # in a container, our control group is the root
    paths = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    paths += _of_group("memory.max", "memory.limit_in_bytes")
    limits = [int(text) for path in paths if (text := _read(path).strip()).isdigit()]
    limit, whole = min(limits, default=0), _whole_memory()
    if not limit or limit >= whole:
        return "the system ran out of memory"
    return f"it reached its limit of {limit / 1e6:.0f} MB of memory"


def _of_group(new: str, old: str) -> list[str]:
    """Return the paths of a memory file of this process's control group.

    The file is called `new` in cgroup v2 and `old` in cgroup v1.
    """
    paths = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            paths.append(f"/sys/fs/cgroup{path}/{new}")
        elif "memory" in controllers.split(","):
            paths.append(f"/sys/fs/cgroup/memory{path}/{old}")
    return paths


def _whole_memory() -> int:
    """Return the machine's memory in bytes."""
    for line in _read("/proc/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.split()[0]) * 1024
    return 0


def _counter(text: str) -> int:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if name == "oom_kill" and value.strip().isdigit():
            return int(value)
    return 0


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""

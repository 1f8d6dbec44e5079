"""Out-of-memory kills: the counters of the kernel before and after a run, and the limit."""

from __future__ import annotations

import sys


def oom_kills() -> int:
    """How often the system has killed for memory, as far as it concerns this process.

    The counters of our own control group and of the whole machine are added: only
    whether the sum has risen means anything.

    >>> oom_kills() <= oom_kills()
    True
    """
    if sys.platform != "linux":
        return 0
    paths = ["/proc/vmstat", *_of_group("memory.events", "memory.oom_control")]
    return sum(_counter(_read(path)) for path in paths)


def why_killed() -> str:
    """What the system killed us for, if it did for memory.

    >>> "memory" in why_killed()
    True
    """
    # A container sees its own group as the root of all.
    paths = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    paths += _of_group("memory.max", "memory.limit_in_bytes")
    limits = [int(text) for path in paths if (text := _read(path).strip()).isdigit()]
    limit, whole = min(limits, default=0), _whole_memory()
    if not limit or limit >= whole:
        return "the system ran out of memory"
    return f"it reached its limit of {limit / 1e6:.0f} MB of memory"


def _of_group(new: str, old: str) -> list[str]:
    """The paths of a file of our control group, in the new hierarchy or the old."""
    paths = []
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            paths.append(f"/sys/fs/cgroup{path}/{new}")
        elif "memory" in controllers.split(","):
            paths.append(f"/sys/fs/cgroup/memory{path}/{old}")
    return paths


def _whole_memory() -> int:
    """The memory of the machine."""
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

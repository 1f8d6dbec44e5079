"""Whether the system killed for want of memory: its counters, before and after."""

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
    paths = ["/proc/vmstat"]
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            paths.append(f"/sys/fs/cgroup{path}/memory.events")
        elif "memory" in controllers.split(","):
            paths.append(f"/sys/fs/cgroup/memory{path}/memory.oom_control")
    return sum(_counter(_read(path)) for path in paths)


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

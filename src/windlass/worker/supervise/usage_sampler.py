"""Measures a replica's use of CPU, memory, disk, network and GPUs.

CPU, memory, disk and GPU values cover the replica's own processes. Network values cover all
processes that share the network, which usually means the whole machine. The supervisor does not
import this module until the first sample is due, so that short trials do not pay for the import.
"""

from __future__ import annotations

import os
import sys
import time

from windlass.worker.common.process_tree import descendants, is_detached

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP = "system"

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Usage:
    """The total resource use up to a moment."""

    def __init__(self) -> None:
        self.time = time.monotonic()
        self.cpu = cpu_of_the_dead()
        self.read = self.written = 0
        self.received = self.sent = 0
        self.memory = 0
        self.processes = 0


class Sampler:
    """Measures this process's descendants, but not this process itself."""

    def __init__(self, devices: Sequence[int], began: float, cpu_before: float) -> None:
        """Create a sampler. `began` is the replica's start, `cpu_before` its CPU time so far."""
        self._gpus = _gpus(devices) if devices else []
        self._last: Usage | None = None
        self._began = began
        self._cpu_before = cpu_before

    def sample(self) -> dict[str, float]:
        """Return the current use of each resource.

        For a resource that only accumulates, such as CPU time, the value is the average use per
        second since the last call.
        """
        now = _usage()
        last, self._last = self._last, now
        values: dict[str, float] = {}
        if last is None:
            # The other totals have no previous values yet.
            passed = max(now.time - self._began, 1e-3)
            values["cpu_percent"] = 100 * max(now.cpu - self._cpu_before, 0.0) / passed
        else:
            passed = max(now.time - last.time, 1e-3)
            values["cpu_percent"] = 100 * max(now.cpu - last.cpu, 0.0) / passed
        if now.processes:
            values["memory_bytes"] = float(now.memory)
            values["processes"] = float(now.processes)
        if last is not None and now.processes:
            for name, after, before in (
                ("disk_read_bytes_per_second", now.read, last.read),
                ("disk_written_bytes_per_second", now.written, last.written),
                ("network_received_bytes_per_second", now.received, last.received),
                ("network_sent_bytes_per_second", now.sent, last.sent),
            ):
                values[name] = max(after - before, 0) / passed
        for gpu in self._gpus:
            values.update(gpu.sample())
        return {name: round(value, 3) for name, value in values.items()}


def cpu_of_the_dead() -> float:
    """Return the CPU seconds used by this process's descendants that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _usage() -> Usage:
    usage = Usage()
    if sys.platform != "linux":
        return usage  # without /proc, no other totals are available
    for pid in _family():
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                text = file.read()
            fields = text[text.rindex(b")") + 2 :].split()
            usage.cpu += sum(map(int, fields[11:15])) / _TICK  # includes children that have ended
            usage.memory += int(fields[21]) * _PAGE
            usage.processes += 1
            _add_io(usage, f"/proc/{pid}/io")
        except (OSError, ValueError, IndexError):
            continue  # the process has ended or changed its user
    _add_io(usage, "/proc/self/io")  # includes descendants that were reaped
    _add_network(usage)
    return usage


def _family() -> list[int]:
    """Return the pids of all of this process's descendants."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        # this kernel does not list a process's children
        return [pid for pid, _ in descendants()]
    pids: list[int] = []
    to_visit = [os.getpid()]
    while to_visit:
        pid = to_visit.pop()
        try:
            threads = os.listdir(f"/proc/{pid}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                    children = [int(child) for child in file.read().split()]
            except OSError:
                continue  # the process has ended
            children = [child for child in children if not is_detached(child)]
            pids += children
            to_visit += children
    return pids


def _add_io(usage: Usage, path: str) -> None:
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError:
        return
    for line in text.splitlines():
        name, _, value = line.partition(b": ")
        if name == b"read_bytes":
            usage.read += int(value)
        elif name == b"write_bytes":
            usage.written += int(value)


def _add_network(usage: Usage) -> None:
    try:
        with open("/proc/net/dev", "rb") as file:
            lines = file.read().splitlines()[2:]
    except OSError:
        return
    for line in lines:
        name, _, rest = line.partition(b":")
        fields = rest.split()
        if name.strip() != b"lo" and len(fields) >= 9:
            usage.received += int(fields[0])
            usage.sent += int(fields[8])


class _Gpu:
    """One GPU, queried through its driver's library."""

    def __init__(self, index: int, library: object, handle: object) -> None:
        self._index = index
        self._library = library
        self._handle = handle

    def sample(self) -> dict[str, float]:
        import ctypes

        library = self._library
        used = (ctypes.c_uint * 2)()  # percentage of time that the GPU and its memory were busy
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        values = {}
        # ctypes looks up these functions when they are called, so type checkers do not know them.
        if library.nvmlDeviceGetUtilizationRates(self._handle, used) == 0:  # type: ignore[attr-defined]
            values[f"gpu{self._index}_percent"] = float(used[0])
        if library.nvmlDeviceGetMemoryInfo(self._handle, memory) == 0:  # type: ignore[attr-defined]
            values[f"gpu{self._index}_memory_bytes"] = float(memory[2])
        return values


def _gpus(devices: Sequence[int], name: str = "libnvidia-ml.so.1") -> list[_Gpu]:
    """Return a replica's GPUs, or an empty list if the driver is missing."""
    import ctypes

    try:
        library = ctypes.CDLL(name)
        if library.nvmlInit_v2() != 0:
            return []
        gpus = []
        for index in devices:
            handle = ctypes.c_void_p()
            if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                gpus.append(_Gpu(index, library, handle))
    except (OSError, AttributeError):
        return []
    return gpus

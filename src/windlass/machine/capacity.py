"""Reads the CPUs, memory and accelerators that this process is permitted to use."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

import psutil

from windlass.model.hardware.accelerators import kind_of_device
from windlass.model.hardware.resources import Capacity, Device
from windlass.model.text.quantities import parse_size

_UNLIMITED = 1 << 60  # cgroup version 1 represents "no limit" as a number near 2**63


def read_capacity(environ: Mapping[str, str] = os.environ, root: str = "") -> Capacity:
    """Return this machine's capacity, within the limits of control groups (cgroups).

    For tests, `root` is the directory that contains `/proc` and `/sys`. `WINDLASS_CPUS`,
    `WINDLASS_MEMORY` and `WINDLASS_DEVICES` override the real values:

    >>> said = {"WINDLASS_CPUS": "2.5", "WINDLASS_MEMORY": "4GB", "WINDLASS_DEVICES": "a100,a100"}
    >>> capacity = read_capacity(said)
    >>> capacity.cpus, [device.kind for device in capacity.devices]
    (2.5, ['a100', 'a100'])
    """
    cpus = environ.get("WINDLASS_CPUS")
    memory = environ.get("WINDLASS_MEMORY")
    devices = environ.get("WINDLASS_DEVICES")
    return Capacity(
        cpus=float(cpus) if cpus else _cpus(root),
        memory=parse_size(memory) if memory else _memory(root),
        devices=_named_devices(devices) if devices is not None else _devices(),
    )


def _named_devices(text: str) -> tuple[Device, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(Device(index=i, kind=name, title=name) for i, name in enumerate(names))


def _cpus(root: str) -> float:
    if hasattr(os, "sched_getaffinity"):
        count = float(len(os.sched_getaffinity(0)))
    else:
        count = float(os.cpu_count() or 1)
    return min([count, *_cpu_quotas(root)])


def _cpu_quotas(root: str) -> list[float]:
    quotas = []
    for folder in _cgroup_folders(root, "cpu"):
        quota, _, period = _read(f"{folder}/cpu.max").partition(" ")
        if not quota:
            quota = _read(f"{folder}/cpu.cfs_quota_us")
            period = _read(f"{folder}/cpu.cfs_period_us")
        if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
            quotas.append(int(quota) / int(period))
    return quotas


def _memory(root: str) -> int:
    limits = [int(psutil.virtual_memory().total)]
    for folder in _cgroup_folders(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(f"{folder}/{name}")
            if limit.isdecimal() and 0 < int(limit) < _UNLIMITED:
                limits.append(int(limit))
    return min(limits)


def _cgroup_folders(root: str, controller: str) -> list[str]:
    """Return the folders of this process's control groups, innermost first.

    Each group can set a limit.
    """
    folders = []
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            base = f"{root}/sys/fs/cgroup"
        elif controller in controllers.split(","):
            base = f"{root}/sys/fs/cgroup/{controller}"
        else:
            continue
        while True:
            folders.append(base + path.rstrip("/"))
            if path in ("", "/"):
                break
            path = os.path.dirname(path)
    return folders


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""


def _devices() -> tuple[Device, ...]:
    if sys.platform == "darwin":
        return ()
    devices = _devices_by_library()
    return _devices_by_tool() if devices is None else devices


def _devices_by_library() -> tuple[Device, ...] | None:
    """Return the GPUs reported by NVIDIA's Python library.

    Return None if the library is missing or fails.
    """
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return ()
    try:
        devices = []
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            title = nvml.nvmlDeviceGetName(handle)
            title = title.decode() if isinstance(title, bytes) else str(title)
            memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            devices.append(_device(index, title, memory))
        return tuple(devices)
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def _devices_by_tool() -> tuple[Device, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    query = ["--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(
            [tool, *query], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return parse_devices(answer.stdout)


def parse_devices(text: str) -> tuple[Device, ...]:
    """Parse the output of `nvidia-smi`. Each line has a GPU's index, name and memory in MiB.

    >>> [(d.index, d.kind, d.memory) for d in parse_devices("0, NVIDIA A100-SXM4-40GB, 40960")]
    [(0, 'a100', 42949672960)]
    """
    devices = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and fields[0].isdecimal():
            memory = int(fields[2]) * 1024**2 if fields[2].isdecimal() else 0
            devices.append(_device(int(fields[0]), fields[1], memory))
    return tuple(devices)


def _device(index: int, title: str, memory: int) -> Device:
    return Device(index=index, kind=kind_of_device(title), title=title, memory=memory)

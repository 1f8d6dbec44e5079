"""The capacity of a machine within the limits of control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from windlass.machine.capacity import read_capacity

MEMORY = psutil.virtual_memory().total
CPUS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def machine(root: Path, files: dict[str, str]) -> tuple[float, int]:
    """The CPUs and the memory of a machine with these files."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    capacity = read_capacity({"WINDLASS_DEVICES": ""}, root=str(root))
    return capacity.cpus, capacity.memory


def test_without_control_groups_the_whole_machine_counts(tmp_path: Path) -> None:
    assert machine(tmp_path, {}) == (CPUS, MEMORY)


def test_the_limits_of_a_unified_group_and_its_parents_count(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/user/job",
        "sys/fs/cgroup/user/job/cpu.max": "50000 100000",
        "sys/fs/cgroup/user/job/memory.max": "max",
        "sys/fs/cgroup/user/cpu.max": "max 100000",
        "sys/fs/cgroup/user/memory.max": "1000000000",
    }
    assert machine(tmp_path, files) == (0.5, 1_000_000_000)


def test_the_limits_of_separate_controllers_count(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu,cpuacct:/job\n4:memory:/job\n1:name=systemd:/elsewhere",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "75000",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000000000",
    }
    assert machine(tmp_path, files) == (0.75, 2_000_000_000)


def test_values_that_mean_no_limit_are_ignored(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:cpu:/\n4:memory:/",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
    }
    assert machine(tmp_path, files) == (CPUS, MEMORY)


def test_a_container_with_an_outside_group_name_has_its_own_limits(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/docker/c0ffee",
        "sys/fs/cgroup/cpu.max": "25000 100000",
        "sys/fs/cgroup/memory.max": "3000000000",
    }
    assert machine(tmp_path, files) == (0.25, min(MEMORY, 3_000_000_000))


def test_a_real_group_counts() -> None:
    group = Path(f"/sys/fs/cgroup/cpu/windlass-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error.strerror}")
    try:
        (group / "cpu.cfs_period_us").write_text("100000")
        (group / "cpu.cfs_quota_us").write_text("50000")
        program = (
            f"open({str(group / 'cgroup.procs')!r}, 'w').write('0')\n"
            "from windlass.machine.capacity import read_capacity\n"
            "print(read_capacity({}).cpus)"
        )
        completed = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        assert completed.stdout == "0.5\n"
    finally:
        group.rmdir()

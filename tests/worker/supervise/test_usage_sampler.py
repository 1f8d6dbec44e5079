"""The resource usage of a replica, as its supervisor reports it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from supervisor_process import Attempt

from windlass.worker.supervise.usage_sampler import _gpus

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc")

# Part of a program: wait for this many samples.
WATCHED = """
import os, subprocess, sys, time
def until_seen(number):
    path = os.path.join(os.path.dirname(os.getcwd()), "1", "metrics")
    while not os.path.exists(path) or len(open(path).read().splitlines()) < number:
        time.sleep(0.05)
"""

BUSY = (
    WATCHED
    + """
keep = bytearray(64 << 20)
child = subprocess.Popen([sys.executable, "-c", "import time\\nwhile True: time.perf_counter()"])
for _ in range(20):
    with open("file", "wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
until_seen(3)
child.kill()
"""
)


def samples(attempt: Attempt) -> list[dict[str, float]]:
    try:
        lines = (attempt.dir / "metrics").read_text().splitlines()
    except FileNotFoundError:
        return []
    records: list[Any] = [json.loads(line) for line in lines]
    assert all(record[2] == "system" for record in records)
    assert all(abs(record[0] - record[1]) <= 1 for record in records), "steps are seconds"
    return [record[3] for record in records]


@linux
def test_cpu_memory_and_disk_include_all_processes(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, BUSY, env={"WINDLASS_SYSTEM_METRICS": "0.5"})
    assert attempt.run()["exit_code"] == 0
    seen = samples(attempt)
    assert len(seen) >= 3
    assert max(sample["cpu_percent"] for sample in seen) > 5
    assert max(sample.get("processes", 0) for sample in seen) == 2
    assert max(sample["memory_bytes"] for sample in seen if "memory_bytes" in sample) > 64 << 20
    rates = {name for sample in seen for name in sample if name.endswith("_per_second")}
    assert rates == {
        "disk_read_bytes_per_second",
        "disk_written_bytes_per_second",
        "network_received_bytes_per_second",
        "network_sent_bytes_per_second",
    }


def test_a_short_program_is_not_sampled(tmp_path: Path) -> None:
    attempt = Attempt(tmp_path, "pass")
    assert attempt.run()["exit_code"] == 0
    assert not (attempt.dir / "metrics").exists()


@pytest.mark.parametrize("off", ["0", pytest.param("off", marks=pytest.mark.thorough)])
def test_sampling_can_be_turned_off(tmp_path: Path, off: str) -> None:
    script = "import time; time.sleep(2.5)"  # the first sample would be after 2 seconds
    attempt = Attempt(tmp_path, script, env={"WINDLASS_SYSTEM_METRICS": off})
    assert attempt.run()["exit_code"] == 0
    assert samples(attempt) == []


@linux
def test_the_first_sample_is_early_and_the_last_at_the_end(tmp_path: Path) -> None:
    script = WATCHED + "until_seen(1); time.sleep(1.2)"  # samples start after a second
    attempt = Attempt(tmp_path, script)
    assert attempt.run()["exit_code"] == 0
    first, *_, last = samples(attempt)
    assert first["memory_bytes"] > 1 << 20
    assert "memory_bytes" not in last, "nobody is left that could use any"
    assert last["cpu_percent"] >= 0


@linux
def test_a_sample_is_cheap(tmp_path: Path) -> None:
    """A tree of ten processes, with a hundred times the usual duration as the limit."""
    script = """
import subprocess, sys, time
from windlass.worker.supervise.usage_sampler import Sampler
children = [subprocess.Popen(["sleep", "60"]) for _ in range(10)]
sampler = Sampler((), time.monotonic(), 0.0)
began = time.process_time()
for _ in range(20):
    seen = sampler.sample()
print((time.process_time() - began) / 20, seen["processes"])
for child in children:
    child.kill()
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    seconds, processes = map(float, done.stdout.split())
    assert processes == 10
    assert seconds < 0.2


STUB = """
#include <stddef.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index > 3) return 2;
    *handle = (void *)(size_t)(index + 1); return 0;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *used) {
    used[0] = 10 * (unsigned)(size_t)handle; used[1] = 1; return 0;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    memory[0] = 100; memory[1] = 60; memory[2] = (1ULL << 33) + (size_t)handle; return 0;
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler for a driver's double")
def test_gpus_are_queried_through_their_driver(tmp_path: Path) -> None:
    (tmp_path / "nvml.c").write_text(STUB)
    library = str(tmp_path / "libnvml.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, str(tmp_path / "nvml.c")], check=True)
    seen = [gpu.sample() for gpu in _gpus((1, 3, 9), library)]
    assert seen == [
        {"gpu1_percent": 20.0, "gpu1_memory_bytes": float((1 << 33) + 2)},
        {"gpu3_percent": 40.0, "gpu3_memory_bytes": float((1 << 33) + 4)},
    ]
    assert _gpus((0,), "libthere-is-no-such-thing.so") == []

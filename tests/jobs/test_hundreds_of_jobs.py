"""Hundreds of concurrent jobs end correctly with little server memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import windlass as wl
from harness import PATIENCE
from replicas import LINGER, LITTLE, exit_codes, shell
from server_with_faults import start_rigged

pytestmark = pytest.mark.thorough

ALONE, TOGETHER = 500, 50
# The server caches running trials, and the allocator does not return freed memory at once. A leak
# (a thread, a stack, a log per replica) takes more than this.
ROOM_TO_GROW = (ALONE + 4 * TOGETHER) * (64 << 10)


def ask_for(number: int) -> tuple[wl.Trial[Any], tuple[str, list[int | None]]]:
    """A job of one replica, with its correct state and the exits of its attempts."""
    if number % 50 == 7:
        return wl.Job(shell("exit 3"), executor=LITTLE).submit(), ("FAILED", [3])
    if number % 50 == 13:
        script = "[ $WINDLASS_ATTEMPT != 1 ] || exit 143"
        job = wl.Job(shell(script), executor=LITTLE, restart_policy="ExitCode")
        return job.submit(), ("SUCCEEDED", [143, 0])
    return wl.Job(shell(":"), executor=LITTLE).submit(), ("SUCCEEDED", [0])


def memory(server: psutil.Process) -> tuple[int, int]:
    """The server's current and peak memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    figures = dict(line.split(":", 1) for line in lines)
    now, most = (int(figures[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
    return now, most


@pytest.mark.case(13)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory from /proc")
def test_five_hundred_and_fifty_concurrent_jobs_end_correctly(
    fresh_home: Path, tmp_path: Path
) -> None:
    server = psutil.Process(start_rigged(fresh_home, f"count:{tmp_path / 'overlaps'}").pid)
    wl.Job(shell(":")).submit().wait(timeout=PATIENCE)  # all late imports are loaded
    before, _ = memory(server)
    capacity = wl.Client().server_info().capacity.cpus
    go = tmp_path / "go"
    # No job starts before all of them are queued.
    plug = wl.Job(shell(LINGER, go), executor=wl.Local(cpus=capacity)).submit()
    began = time.monotonic()
    alone = [ask_for(number) for number in range(ALONE)]
    together = [
        wl.Job(
            shell(":"), executor=LITTLE, replicas=4, framework=[None, "torch"][number % 2]
        ).submit()
        for number in range(TOGETHER)
    ]
    assert wl.Client().server_info().trials_queued == ALONE + TOGETHER
    submitted = time.monotonic()
    go.touch()
    assert plug.wait(timeout=PATIENCE).state == "SUCCEEDED"
    for trial, expected in alone:
        trial.wait(timeout=PATIENCE)
        assert (trial.state, exit_codes(trial, "main-0")) == expected, trial.message
        assert trial.restarts == len(expected[1]) - 1
    for trial in together:
        trial.wait(timeout=PATIENCE)
        assert trial.state == "SUCCEEDED", trial.message
        assert [attempt.exit_code for attempt in trial.attempts] == [0] * 4
    ended = time.monotonic()
    after, most = memory(server)
    print(
        f"submitted in {submitted - began:.1f} s, all ended {ended - submitted:.1f} s later;"
        f" {before >> 20} MB before, {most >> 20} MB at most, {after >> 20} MB after"
    )
    info = wl.Client().server_info()
    assert (info.trials_queued, info.trials_running) == (0, 0)
    assert info.cpus_free == info.capacity.cpus, "all room was given back"
    assert not (tmp_path / "overlaps").exists(), "no job was looked at by two at a time"
    assert most - before < ROOM_TO_GROW

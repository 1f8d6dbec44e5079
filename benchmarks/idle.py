"""Memory and processor time of an idle server."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.model import Figure, Value, at_most, figure
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop
from benchmarks.yardstick import clean_environment

_WINDOW = 10.0  # the kernel counts in hundredths of a second: 0.1 % of this


@benchmark("idle")
def measure_idle(bench: Bench) -> Iterator[Figure]:
    """The server after a trial, and the warm launchers it keeps."""
    del bench  # this benchmark does not measure time
    with Workshop() as shop:
        shop.run("first_value.py")
        shop.settle()
        server = psutil.Process(shop.server_pid())
        started = time.monotonic()
        before = _processor_time(server)
        sizes, bare_sizes = Samples(), Samples()
        while time.monotonic() - started < _WINDOW:
            time.sleep(_WINDOW / 5)  # measure while idle
            sizes.append(sum(_memory(process) for process in _family(server)))
        passed = time.monotonic() - started
        used = _processor_time(server) - before
        for _ in range(5):
            with _bare_interpreter() as process:
                bare_sizes.append(_memory(process))
        family = len(_family(server))
    low, high = sizes.quartiles
    kind = "PSS" if _has_pss() else "RSS"
    yield figure(
        "idle.memory",
        f"idle server and its launchers, memory ({kind})",
        Value(
            amount=sizes.median,
            unit="MB",
            samples=len(sizes),
            low=low,
            high=high,
            ratio=sizes.median / bare_sizes.median,
            bare=bare_sizes.median,
        ),
        at_most(60, "MB"),
        note=f"{family} processes; the ratio is to an interpreter that waits",
    )
    yield figure(
        "idle.cpu",
        f"idle server and its launchers, processor time over {_WINDOW:g} s",
        Value(amount=used / passed * 100, unit="% of a core", samples=1),
        at_most(0.5, "% of a core"),
    )


def _family(server: psutil.Process) -> list[psutil.Process]:
    return [server, *server.children(recursive=True)]


def _processor_time(server: psutil.Process) -> float:
    times = [process.cpu_times() for process in _family(server)]
    return float(sum(each.user + each.system for each in times))


def _has_pss() -> bool:
    """Return whether the system reports the share of each process in shared memory."""
    return Path("/proc/self/smaps_rollup").exists()


def _memory(process: psutil.Process) -> float:
    """Megabytes."""
    if not _has_pss():
        return float(process.memory_info().rss) / 1e6
    for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError("the kernel tells no PSS")


@contextmanager
def _bare_interpreter() -> Iterator[psutil.Process]:
    """An interpreter that has started and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env=clean_environment(Path("/")),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        yield psutil.Process(process.pid)
        process.stdin.write(b"\n")
        process.stdin.flush()

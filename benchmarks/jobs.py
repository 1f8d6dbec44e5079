"""Jobs of one and of several replicas, hundreds at once: their rate, and what a look takes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from benchmarks.model import Figure, Value, figure, rate_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop

_ONES, _FOURS = 500, 50
_REPLICAS = _ONES + 4 * _FOURS
_GLANCE = 0.1


@benchmark("jobs")
def measure_jobs(bench: Bench) -> Iterator[Figure]:
    """All at once, by one client that waits for the end of each."""
    bare = Samples(bench.bare() for _ in range(10))
    with Workshop() as shop, shop.script("jobs.py") as script:
        shop.windlass("server", "start")
        server = psutil.Process(shop.server_pid())
        before = _memory(server)
        with _peak(server) as peak:
            answer = script.ask()
        after = _memory(server)
    times = Samples([answer["took"]])
    yield figure(
        "jobs.rate",
        f"{_ONES} jobs of 1 replica and {_FOURS} of 4 at once → all ended",
        rate_value(times, _ONES + _FOURS, bare),
        note=f"{_REPLICAS} processes; all accepted after {answer['accepted']:.1f} s; "
        "the ratio is of the time one job takes",
    )
    for name, words in (("p50", "half of them at most"), ("p99", "99 of 100 at most")):
        seconds = answer[name]
        yield figure(
            f"jobs.look-{name}",
            f"one look at a job meanwhile, {words}",
            Value(
                amount=seconds * 1e3,
                unit="ms",
                samples=answer["looks"],
                ratio=seconds / bare.median,
                bare=bare.median * 1e3,
            ),
            note="includes storing results and starting processes",
        )
    yield figure(
        "jobs.memory",
        "the server's memory at its highest meanwhile (RSS)",
        Value(amount=peak[0], unit="MB", samples=1),
        note=f"{before:.0f} MB before, {after:.0f} MB after",
    )


def _memory(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 1e6


@contextmanager
def _peak(process: psutil.Process) -> Iterator[list[float]]:
    """The most memory that was seen of a process, in the only place of a list."""
    most, is_over = [_memory(process)], threading.Event()

    def watch() -> None:
        while not is_over.wait(_GLANCE):
            most[0] = max(most[0], _memory(process))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        is_over.set()
        watcher.join()

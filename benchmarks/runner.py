"""Runs benchmarks one after the other and makes the report."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from benchmarks import machine
from benchmarks.model import Figure, Report, time_value
from benchmarks.peers import Peers
from benchmarks.registry import Bench, Benchmark
from benchmarks.yardstick import DESCRIPTION, Yardstick
from windlass.version import __version__


def run_benchmarks(chosen: Mapping[str, Benchmark], *, skip_peers: bool) -> Report:
    """Measure; a benchmark that fails has a row that says so, and the others go on."""
    bench = Bench(Yardstick(), Peers(skip=skip_peers))
    started, before = time.time(), machine.load()
    for _ in range(3):
        bench.bare()
    figures: list[Figure] = []
    for name, measure in chosen.items():
        figures += _run_one(name, measure, bench)
    bare = bench.yardstick.samples
    return Report(
        windlass=__version__,
        commit=machine.commit(),
        started=started,
        took=time.time() - started,
        machine=machine.describe(before),
        yardstick=DESCRIPTION,
        bare=time_value(bare, bare),
        peers=bench.peers.versions,
        figures=tuple(figures),
    )


def _run_one(name: str, measure: Benchmark, bench: Bench) -> Sequence[Figure]:
    print(f"{name} ...", end=" ", file=sys.stderr, flush=True)
    start = time.monotonic()
    figures: list[Figure] = []
    try:
        figures.extend(measure(bench))
    except Exception as error:  # noqa: BLE001 -- the other figures are still worth having
        figures.append(Figure(name=name, title="", error=str(error) or type(error).__name__))
    print(f"{time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return figures

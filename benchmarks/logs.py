"""How soon a line that a trial writes is seen by who follows its log."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import Figure, at_most, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop


@benchmark("log-delay")
def measure_log_delay(bench: Bench) -> Iterator[Figure]:
    """Each line carries its time of writing; writer and follower read the same clock."""
    bare, delays = Samples(), Samples()
    with Workshop() as shop, shop.script("log_delay.py") as script:
        script.ask()
        for _ in range(3):
            bare.extend(bench.bare() for _ in range(3))
            delays.extend(script.ask())
    yield figure(
        "log-delay.p50",
        "log line written → seen by a follower, median",
        time_value(delays, bare),
        at_most(10, "ms"),
        note="100 lines a second are written",
    )
    yield figure(
        "log-delay.p99",
        "log line written → seen by a follower, 99th of 100",
        time_value(delays, bare, delays.quantile(0.99)),
        at_most(50, "ms"),
    )

"""What reporting costs a program, and how fast it becomes part of the summary."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import Figure, at_most, figure, rate_value, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop


@benchmark("reports")
def measure_reports(bench: Bench) -> Iterator[Figure]:
    """One program alone, then eight replicas at once until all is counted."""
    bare, calls, rounds = Samples(), Samples(), Samples()
    points = 0
    with Workshop() as shop, shop.script("reports.py") as script:
        for _ in range(2):
            bare.extend(bench.bare() for _ in range(3))
            answer = script.ask()
            calls.extend(answer["calls"])
            rounds.extend([answer["took"]])
            points = answer["points"]
    yield figure(
        "reports.call",
        "wl.report of one metric",
        time_value(calls, bare),
        at_most(0.02, "ms"),
        note="in batches of 2,000, the server reading beside",
    )
    yield figure(
        "reports.rate",
        "points of 8 replicas, from their start to the summary that has them all",
        rate_value(rounds, points, bare),
        note="one point a call; the programs themselves take most of the time",
    )

"""A call until its value: with nothing running, and warm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.model import Figure, Value, at_most_bare, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.workshop import Workshop


@benchmark("first-value")
def measure_first_value(bench: Bench) -> Iterator[Figure]:
    """From starting a script to its first value; no server, a home that is not there yet."""

    def take(script: str, python: str | Path) -> float:
        with Workshop() as shop:
            return shop.time_first_line(script, python)

    def take_ray(python: Path) -> Value:
        taken = alternate(
            2,
            warm_up=False,
            bare=lambda: bench.yardstick.bare(python),
            ray=lambda: take("first_value_ray.py", python),
        )
        return time_value(taken["ray"], taken["bare"])

    taken = alternate(5, bare=bench.bare, first=lambda: take("first_value.py", sys.executable))
    yield figure(
        "first-value",
        "script with one call started → value, nothing running",
        time_value(taken["first"], taken["bare"]),
        at_most_bare(28),
        bench.peers.measure("ray", "script with ray.init and one task started → value", take_ray),
    )


@benchmark("warm-call")
def measure_warm_call(bench: Bench) -> Iterator[Figure]:
    """A call with the server running; each trial is recorded and has a process of its own."""
    taken = _alternate_with_script(bench, "warm_call.py", 50)
    times, bare = taken["script"], taken["bare"]
    peers = (
        bench.peers.measure(
            "submitit",
            "LocalExecutor: submit and result",
            lambda python: _peer_median(bench, "warm_call_submitit.py", 5, python),
        )
        + bench.peers.measure(
            "ray",
            "task of a warm Ray, in a process that is there, not recorded",
            lambda python: _peer_median(bench, "warm_call_ray.py", 50, python),
        )
        + bench.peers.measure(
            "ray",
            "Jobs API: submit until done, recorded, no value",
            lambda python: _peer_median(bench, "ray_jobs.py", 3, python),
        )
    )
    yield figure(
        "warm-call.p50",
        "warm call → value, median of 50",
        time_value(times, bare),
        at_most_bare(1.5),
        peers,
    )
    yield figure(
        "warm-call.p95",
        "warm call → value, 95th percentile of 50",
        time_value(times, bare, times.quantile(0.95)),
        at_most_bare(2),
    )


def _peer_median(bench: Bench, script: str, rounds: int, python: Path) -> Value:
    taken = _alternate_with_script(bench, script, rounds, python)
    return time_value(taken["script"], taken["bare"])


def _alternate_with_script(
    bench: Bench, name: str, rounds: int, python: Path | None = None
) -> dict[str, Samples]:
    with Workshop() as shop, shop.script(name, python=python or sys.executable) as script:
        return alternate(rounds, bare=lambda: bench.yardstick.bare(python), script=script.ask)

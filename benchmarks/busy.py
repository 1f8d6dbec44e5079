"""A server that many clients load at once: strangers, followers, submissions."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import Budget, Figure, Value, at_most, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop

_ROUNDS = 3


@benchmark("busy")
def measure_busy(bench: Bench) -> Iterator[Figure]:
    """Requests, calls and memory of the server; calls and requests also without the load."""
    bare, health, quiet, busy, memory = (Samples() for _ in range(5))
    followed = submitted = 0
    with Workshop() as shop:
        taken = shop.root / "taken"
        taken.touch()
        try:
            with shop.script("responsiveness.py", taken) as script:
                for _ in range(_ROUNDS):
                    bare.extend(bench.bare() for _ in range(3))
                    answer = script.ask()
                    health.extend(answer["busy"]["health"])
                    quiet.extend(answer["quiet"]["calls"])
                    busy.extend(answer["busy"]["calls"])
                    memory.append(answer["memory"])
                    followed += answer["busy"]["followers"]
                    submitted += answer["busy"]["submissions"]
        finally:
            taken.unlink()
    yield figure(
        "busy.health",
        "GET /health, 99th percentile, while 950 clients and submissions load the server",
        time_value(health, bare, health.quantile(0.99)),
        at_most(100, "ms"),
        note="500 connections without a request, 400 followers that read nothing, 50 that read "
        f"100,000 lines again and again ({followed} times), {submitted:,} submissions in 30 s",
    )
    yield figure(
        "busy.call",
        "warm call beside this load, in times of a call without it",
        Value(amount=busy.median / quiet.median, unit="×", samples=len(busy)),
        Budget(limit=3, text="≤ 3 ×"),
        note=f"{busy.median * 1e3:.0f} ms; without the load {quiet.median * 1e3:.0f} ms",
    )
    yield figure(
        "busy.memory",
        "peak memory of the server with this load (RSS)",
        Value(amount=max(memory), unit="MB", samples=len(memory)),
        at_most(200, "MB"),
    )

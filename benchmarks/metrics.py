"""Cost of reporting, speed of storing, speed of reading curves, compared with MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.model import Figure, Value, at_least, at_most, figure, rate_value, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop

_TIMES = 20  # that we are to be as fast as MLflow


@benchmark("reports")
def measure_reports(bench: Bench) -> Iterator[Figure]:
    """One program alone, eight replicas at once until all is counted, curves; MLflow in turn."""
    bare, calls, rounds, few, raw = Samples(), Samples(), Samples(), Samples(), Samples()
    theirs = _MLflow(bench)
    points = 0
    with Workshop() as shop, shop.script("reports.py") as script:
        for _ in range(2):
            bare.extend(bench.bare() for _ in range(3))
            answer = script.ask()
            calls.extend(answer["calls"])
            rounds.extend([answer["took"]])
            few.extend(answer["few"])
            raw.extend(answer["raw"])
            points = answer["points"]
            theirs.ask()
    yield figure(
        "reports.call",
        "wl.report of one metric",
        time_value(calls, bare),
        at_most(0.02, "ms"),
        note="in batches of 2,000, the server reading beside",
    )
    yield figure(
        "reports.rate",
        f"{points:,} points of 8 replicas, from their start to the summary that has them all",
        rate_value(rounds, points, bare),
        peers=theirs.figures("log_batch into SQLite, 1,000 points a call", "logged", bare),
        note="one point a call; the programs themselves take most of the time",
    )
    yield from theirs.times("reports.gain", "kept", "logged", rounds.median / max(points, 1))
    yield figure(
        "curves.few",
        "a curve of 1,000,000 points, downsampled to 1,000 with its spike",
        time_value(few, bare),
        at_most(100, "ms"),
    )
    yield figure(
        "curves.raw",
        "100,000 points as they were reported",
        time_value(raw, bare),
        peers=theirs.figures("get_metric_history of as many, from SQLite", "fetched", bare),
    )
    yield from theirs.times("curves.gain", "fetched", "fetched", raw.median / 100_000)


class _MLflow:
    """Return the time of MLflow for the same work, in the same run."""

    def __init__(self, bench: Bench) -> None:
        self._peers = bench.peers
        self._answers: list[dict[str, Any]] = []
        self._missing: tuple[Any, ...] = ()

    def ask(self) -> None:
        """Let it do it once."""

        def take(python: Path) -> Value:
            with Workshop() as shop, shop.script("reports_mlflow.py", python=python) as script:
                self._answers.append(script.ask())
            return Value(amount=0, unit="ms", samples=1)

        self._missing = self._peers.measure("mlflow", "MLflow", take)

    def figures(self, title: str, what: str, bare: Samples) -> tuple[Any, ...]:
        """Its row."""
        if not self._answers:
            return self._missing

        def take(_python: Path) -> Value:
            times = Samples(each[what] for each in self._answers)
            if what == "logged":
                return rate_value(times, self._answers[0]["points"], bare)
            return time_value(times, bare)

        return self._peers.measure("mlflow", title, take)

    def times(self, name: str, done: str, what: str, ours: float) -> Iterator[Figure]:
        """Return the speed relative to MLflow; None if MLflow was not measured."""
        if not self._answers:
            return
        each = Samples(answer[what] / answer["points"] for answer in self._answers)
        yield figure(
            name,
            f"points {done}, in times of MLflow's rate",
            Value(amount=each.median / ours, unit="×", samples=len(each)),
            at_least(_TIMES, "×"),
        )

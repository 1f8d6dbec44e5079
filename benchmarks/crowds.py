"""Many at once: trials until all values are there, submissions until all are accepted."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.model import Figure, PeerFigure, Value, at_most_bare, figure, rate_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.workshop import Workshop

_TRIALS = 100
_SUBMITS = 1000
_LONG_ENOUGH = 40.0  # seconds after which another round tells no more than it costs


@benchmark("crowd")
def measure_crowd(bench: Bench) -> Iterator[Figure]:
    """A hundred trials by one `map`, as many at a time as there are CPUs."""
    popen = _rate(bench, "crowd_popen.py", 3)
    yield figure(
        "crowd",
        f"{_TRIALS} trials submitted at once → all values",
        _rate(bench, "crowd.py", 3),
        at_most_bare(0.9),
        (
            *bench.peers.measure(
                "submitit",
                f"LocalExecutor: {_TRIALS} jobs at once → all values",
                lambda python: _rate(bench, "crowd_submitit.py", 1, python, warm_up=False),
            ),
            PeerFigure(name="Popen", title=f"{_TRIALS} × python -c pass at once", value=popen),
        ),
        note="the ratio is of the time one trial takes",
    )


@benchmark("submits")
def measure_submits(bench: Bench) -> Iterator[Figure]:
    """A thousand submissions, queued; then the server is killed, and none may be missing."""
    bare, times = Samples(), Samples()
    started = time.monotonic()
    while len(times) < 3 and time.monotonic() - started < _LONG_ENOUGH:
        bare.extend(bench.bare() for _ in range(3))
        times.append(_submit_to_a_taken_machine("one by one"))
    yield figure(
        "submits",
        f"{_SUBMITS} .submit accepted, one after the other, the machine taken",
        rate_value(times, _SUBMITS, bare),
        at_most_bare(0.12),
        note="all still there after SIGKILL to the server; the ratio is of the time one takes",
    )


@benchmark("batches")
def measure_batches(bench: Bench) -> Iterator[Figure]:
    """A thousand submissions by one `map`, queued; then the server is killed, as above."""
    bare, times = Samples(), Samples()
    for _ in range(3):
        bare.extend(bench.bare() for _ in range(3))
        times.append(_submit_to_a_taken_machine("map"))
    yield figure(
        "batches",
        f"{_SUBMITS} submissions of one map accepted, the machine taken",
        rate_value(times, _SUBMITS, bare),
        at_most_bare(0.03),
        note="all still there after SIGKILL to the server; the ratio is of the time one takes",
    )


def _rate(
    bench: Bench, name: str, rounds: int, python: Path | None = None, *, warm_up: bool = True
) -> Value:
    with Workshop() as shop, shop.script(name, python=python or sys.executable) as script:
        taken = alternate(
            rounds,
            warm_up=warm_up,
            bare=lambda: bench.yardstick.bare(python),
            script=script.ask,
        )
    return rate_value(taken["script"], _TRIALS, taken["bare"])


def _submit_to_a_taken_machine(how: str) -> float:
    with Workshop() as shop:
        taken = shop.root / "taken"
        taken.touch()
        try:
            with shop.script("submits.py", taken, how) as script:
                seconds: float = script.ask()
            shop.kill_server()  # so that nothing of what waits is started
            _check_recorded(shop.home / "windlass.db")
        finally:
            taken.unlink()
        return seconds


def _check_recorded(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM trials WHERE state = 'QUEUED'")
    if count != _SUBMITS:
        raise RuntimeError(f"{_SUBMITS} trials were accepted, {count} are recorded")

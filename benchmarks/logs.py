"""Logs: how soon a line is seen, how fast a log is searched, what writing one costs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import (
    Budget,
    Figure,
    PeerFigure,
    Value,
    at_least,
    at_most,
    figure,
    rate_value,
    time_value,
)
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
        "log line written → seen by a follower, 99th percentile",
        time_value(delays, bare, delays.quantile(0.99)),
        at_most(50, "ms"),
    )


@benchmark("log-search")
def measure_log_search(bench: Bench) -> Iterator[Figure]:
    """1 GB in 100 trials; grep looks at the same files in the same run."""
    bare = Samples()
    ours: dict[str, Samples] = {"plain": Samples(), "regex": Samples()}
    greps: dict[str, Samples] = {"plain": Samples(), "regex": Samples()}
    with Workshop() as shop, shop.script("log_search.py") as script:
        script.ask()
        for _ in range(3):
            bare.extend(bench.bare() for _ in range(3))
            answer = script.ask()
            for kind, peer in (("plain", "grep -c"), ("regex", "grep -cE")):
                ours[kind].append(sum(answer[kind]) / len(answer[kind]))
                greps[kind].append(sum(answer[peer]) / len(answer[peer]))
    for kind, peer, times in (("plain", "grep -c", 1.0), ("regex", "grep -cE", 2.0)):
        ratio = ours[kind].median / greps[kind].median
        value = Value(amount=ratio, unit="×", samples=len(ours[kind]))
        yield figure(
            f"log-search.{kind}",
            f"{kind} search of 1 GB of logs in 100 trials, in times of {peer}",
            value,
            Budget(limit=times, text=f"≤ {times:g} × {peer}"),
            note=f"{ours[kind].median:.2f} s; {peer} on the same files {greps[kind].median:.2f} s",
        )


@benchmark("log-flood")
def measure_log_flood(bench: Bench) -> Iterator[Figure]:
    """The same program in a trial and into a file, as Python does it and as trials have it."""
    bare = Samples()
    took: dict[str, Samples] = {}
    lines = 0
    with Workshop() as shop, shop.script("log_flood.py") as script:
        script.ask()
        for _ in range(3):
            bare.extend(bench.bare() for _ in range(3))
            answer = script.ask()
            lines = int(answer.pop("lines"))
            for name, seconds in answer.items():
                took.setdefault(name, Samples()).append(seconds)
    for name, title in (("", "each print written at once"), ("buffered ", "prints gathered")):
        trial, file = took[f"{name}trial"], took[f"{name}file"]
        yield figure(
            f"log-flood.{name.strip() or 'unbuffered'}",
            f"lines a program prints in a trial, {title}",
            rate_value(trial, lines, bare),
            at_least(100_000, "a second"),
            peers=(
                PeerFigure(
                    name="file", title="the same > file", value=rate_value(file, lines, bare)
                ),
            ),
        )
    yield figure(
        "log-flood.followed",
        "lines that who follows has in hand, from the start of the trial",
        rate_value(took["followed"], lines, bare),
    )

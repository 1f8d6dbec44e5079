"""The overhead of a search per trial, compared with Optuna alone."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import Figure, Value, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples
from benchmarks.workshop import Workshop

_ROUNDS = 5


@benchmark("search")
def measure_search(bench: Bench) -> Iterator[Figure]:
    """Thirty trials one after the other, then thirty calls of the same function, in turn."""
    bare = Samples()
    taken: dict[str, Samples] = {}
    with Workshop() as shop, shop.script("search.py") as script:
        shop.windlass("server", "start")
        for turn in range(_ROUNDS + 1):
            answer = script.ask()
            seconds = bench.bare()
            if turn == 0:
                continue
            bare.append(seconds)
            for name, each in answer.items():
                taken.setdefault(name, Samples()).append(each)
    search, call, alone = taken["search"], taken["call"], taken["optuna"]
    beyond = Samples(max(one - other, 0.0) for one, other in zip(search, call, strict=True))
    yield figure(
        "search.trial",
        "one trial of a search (TPE), one at a time → the next one is added",
        time_value(search, bare),
        note=f"a call of the same function takes {call.median * 1e3:.0f} ms",
    )
    yield figure(
        "search.overhead",
        "the part of the search: decide, record, receive the end",
        Value(
            amount=beyond.median * 1e3,
            unit="ms",
            samples=len(beyond),
            ratio=beyond.median / bare.median,
            bare=bare.median * 1e3,
        ),
        note=f"Optuna alone, all in one process, takes {alone.median * 1e3:.1f} ms a trial",
    )

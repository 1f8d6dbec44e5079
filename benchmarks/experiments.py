"""Experiments: how fast trials are added, how soon one runs, what packaging again costs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.model import Budget, Figure, at_most_bare, figure, rate_value, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.trees import make_tree
from benchmarks.workshop import Workshop

_ADDS = 1000


@benchmark("adds")
def measure_adds(bench: Bench) -> Iterator[Figure]:
    """A thousand trials of a packaged tree, added one after the other; none of them starts yet."""
    bare, times = Samples(), Samples()
    for _ in range(3):
        bare.extend(bench.bare() for _ in range(3))
        with Workshop() as shop, shop.script("adds.py") as script:
            times.append(script.ask())
    yield figure(
        "adds",
        f"{_ADDS:,} exp.add of a packaged tree, one after the other, before they run",
        rate_value(times, _ADDS, bare),
        at_most_bare(0.12),
        note="each is recorded before the next; the ratio is of the time one takes",
    )


@benchmark("add-runs")
def measure_add_runs(bench: Bench) -> Iterator[Figure]:
    """From `exp.add` of a packaged function to its first line, beside a warm call."""
    with (
        Workshop() as shop,
        shop.script("add_runs.py") as adding,
        shop.script("warm_call.py") as calling,
    ):
        taken = alternate(30, bare=bench.bare, add=adding.ask, call=calling.ask)
    call = time_value(taken["call"], taken["bare"])
    yield figure(
        "add-runs",
        "exp.add of a packaged function → its process runs, median of 30",
        time_value(taken["add"], taken["bare"]),
        Budget(limit=call.amount, text="≤ a warm call"),
        note=f"a warm call → value took {call.amount:.1f} ms in turn with it",
    )


@benchmark("packaging")
def measure_packaging(bench: Bench) -> Iterator[Figure]:
    """A tree of 10,000 files that has not changed, packaged again by the same process."""
    with Workshop() as shop:
        root = make_tree(shop)
        with shop.script("package_again.py", root) as script:
            taken = alternate(7, bare=bench.bare, ours=script.ask)
    yield figure(
        "packaging",
        "exp.package of an unchanged tree of 10,000 files",
        time_value(taken["ours"], taken["bare"]),
        note="it looks at every file, and sends nothing",
    )

"""The registry of benchmarks, and their inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from benchmarks.model import Figure
from benchmarks.peers import Peers
from benchmarks.yardstick import Yardstick


@dataclass
class Bench:
    """The inputs of a benchmark."""

    yardstick: Yardstick = field(default_factory=Yardstick)
    peers: Peers = field(default_factory=Peers)

    @property
    def bare(self) -> Callable[[], float]:
        return self.yardstick.bare


Benchmark = Callable[[Bench], Iterable[Figure]]

_REGISTERED: dict[str, Benchmark] = {}


def benchmark(name: str) -> Callable[[Benchmark], Benchmark]:
    """Register a function that measures one or several figures, all named after `name`."""

    def register(function: Benchmark) -> Benchmark:
        _REGISTERED[name] = function
        return function

    return register


def all_benchmarks() -> dict[str, Benchmark]:
    """Every benchmark by its name, in the order in which they are run and shown."""
    from benchmarks import (  # noqa: F401 -- importing them registers them
        busy,
        calls,
        crowds,
        experiments,
        idle,
        jobs,
        listing,
        logs,
        metrics,
        saving,
        searches,
        startup,
        trees,
    )

    order = [
        "import",
        "help",
        "first-value",
        "warm-call",
        "crowd",
        "submits",
        "adds",
        "add-runs",
        "jobs",
        "search",
        "snapshot",
        "packaging",
        "log-delay",
        "log-search",
        "log-flood",
        "reports",
        "checkpoint",
        "idle",
        "busy",
        "listing",
        "lists",
    ]
    return {name: _REGISTERED[name] for name in order}

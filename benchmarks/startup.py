"""The cost of importing Windlass and of its command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.model import Figure, Value, at_most_bare, figure, time_value
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.yardstick import BIN, clean_environment, time_command

_ROUNDS = 20


@benchmark("import")
def measure_import(bench: Bench) -> Iterator[Figure]:
    """`import windlass`, and with it the one name nearly every script uses."""
    taken = alternate(
        _ROUNDS,
        bare=bench.bare,
        imported=lambda: _run(sys.executable, "import windlass"),
        used=lambda: _run(sys.executable, "from windlass import run"),
    )
    yield figure(
        "import",
        "import windlass, beyond bare Python",
        _beyond(taken["imported"], taken["bare"]),
        at_most_bare(0.3),
        bench.peers.measure("submitit", "import submitit", lambda p: _of_peer(bench, p, "submitit"))
        + bench.peers.measure("ray", "import ray", lambda p: _of_peer(bench, p, "ray")),
    )
    yield figure(
        "import.run",
        "from windlass import run, beyond bare Python",
        _beyond(taken["used"], taken["bare"]),
        at_most_bare(1),
        note="names are loaded when first used",
    )


@benchmark("help")
def measure_help(bench: Bench) -> Iterator[Figure]:
    """The command that only prints its help."""
    environment = clean_environment(Path("/"))
    taken = alternate(
        _ROUNDS,
        bare=bench.bare,
        help=lambda: time_command([BIN / "windlass", "--help"], environment),
    )
    yield figure(
        "help", "windlass --help", time_value(taken["help"], taken["bare"]), at_most_bare(5)
    )


def _of_peer(bench: Bench, python: Path, module: str) -> Value:
    taken = alternate(
        5,
        bare=lambda: bench.yardstick.bare(python),
        imported=lambda: _run(python, f"import {module}"),
    )
    return _beyond(taken["imported"], taken["bare"])


def _run(python: str | Path, code: str) -> float:
    return time_command([python, "-c", code], clean_environment(Path("/")))


def _beyond(times: Samples, bare: Samples) -> Value:
    """Return the differences, pair by pair."""
    more = Samples(ours - theirs for ours, theirs in zip(times, bare, strict=True))
    return time_value(more, bare)

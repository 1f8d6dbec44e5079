"""Whether listing stays as fast when many trials were run."""

from __future__ import annotations

import shutil
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from benchmarks.model import (
    Figure,
    PeerFigure,
    Value,
    at_most,
    at_most_bare,
    figure,
    time_value,
)
from benchmarks.registry import Bench, benchmark
from benchmarks.samples import Samples, alternate
from benchmarks.stored_trials import add_trials
from benchmarks.workshop import Workshop

_FEW, _MANY = 10, 10_000
_TRIALS, _ROUNDS = 1_000_000, 15
_WALKED = 100_000  # of them, one by one
_MEMORY, _NEEDED = Path("/dev/shm"), 6 << 30  # bytes for the database and its indexes
_UNSORTED, _SORTED = 1.5, 3.0  # budgets, in starts of a bare interpreter
_LISTS = (
    ("first", "the newest 100", _UNSORTED),
    ("state", "the newest 100 in a state", _UNSORTED),
    ("where", "the newest 100, by two hyper-parameters", _UNSORTED),
    ("by-metric", "100, sorted by a metric", _SORTED),
    ("by-hparam", "100, sorted by a hyper-parameter", _SORTED),
    ("hparam", "100, by two hyper-parameters, sorted by one", _SORTED),
    ("metric", "100, by a metric, sorted by it", _SORTED),
    ("mixed", "100, by a hyper-parameter, a metric and state, sorted by a metric", _SORTED),
    ("rare", "100, by a hyper-parameter of 1 in 1,000, sorted by a metric", None),
)


@benchmark("listing")
def measure_listing(bench: Bench) -> Iterator[Figure]:
    """`windlass ls` of two homes in turn: one with few finished trials, one with many."""
    with Workshop() as few, Workshop() as many:
        _fill(few, _FEW)
        _fill(many, _MANY)
        taken = alternate(
            15,
            bare=bench.bare,
            few=lambda: few.windlass("ls"),
            many=lambda: many.windlass("ls"),
        )
    times = Samples(a / b for a, b in zip(taken["many"], taken["few"], strict=True))
    low, high = times.quartiles
    of_many = time_value(taken["many"], taken["bare"])
    yield figure(
        "listing",
        f"windlass ls with {_MANY:,} finished trials, to that with {_FEW}",
        Value(
            amount=taken["many"].median / taken["few"].median,
            unit="×",
            samples=len(times),
            low=low,
            high=high,
            ratio=of_many.ratio,
            bare=of_many.bare,
        ),
        at_most(1.5, "×"),
        note=f"{of_many.amount:.0f} ms to {taken['few'].median * 1e3:.0f} ms; "
        "one trial was run, the others are copies of its rows",
    )


@benchmark("lists")
def measure_lists(bench: Bench) -> Iterator[Figure]:
    """Pages of a hundred out of a million trials, filtered and sorted; then many, one by one."""
    answers: list[dict[str, float]] = []
    bare = Samples()
    has_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _NEEDED
    with Workshop(_MEMORY if has_memory else None) as shop:
        shop.run("first_value.py")
        shop.windlass("server", "stop")
        shop.settle()
        add_trials(shop.home / "windlass.db", _TRIALS)
        shop.windlass("server", "start")
        with shop.script("lists.py") as script:
            script.ask()  # what is read for the first time comes from the disk
            for _ in range(_ROUNDS):
                bare.extend([bench.bare()])
                answers.append(script.ask())
            walked = script.ask(f"walk {_WALKED}")
    for name, what, limit in _LISTS:
        times = Samples(answer[name] for answer in answers)
        yield figure(
            f"lists.{name}",
            f"of {_TRIALS:,} trials {what}",
            time_value(times, bare),
            None if limit is None else at_most_bare(limit),
            peers=_mlflow(bench, name, bare),
        )
    yield figure(
        "lists.walk",
        f"memory that a walk through {_WALKED:,} trials adds to that of the first thousand",
        Value(amount=walked["grown"], unit="MB", samples=1),
        at_most(5, "MB"),
        note=f"{walked['count'] / walked['took']:,.0f} trials a second",
    )


def _mlflow(bench: Bench, name: str, bare: Samples) -> tuple[PeerFigure, ...]:
    """The same of MLflow, with the 2,000 runs that it can be filled with in reasonable time."""
    if name not in ("first", "metric"):
        return ()

    def take(python: Path) -> Value:
        with Workshop() as shop, shop.script("lists_mlflow.py", python=python) as script:
            answers = [script.ask() for _ in range(5)]
        return time_value(Samples(answer[name] for answer in answers), bare)

    return bench.peers.measure("mlflow", "MLflow's search_runs with 2,000 runs", take)


def _fill(shop: Workshop, count: int) -> None:
    """Run one trial, and let the home look as if it had been run so many times."""
    shop.run("first_value.py")
    shop.windlass("server", "stop")
    shop.settle()
    _copy_first_trial(shop.home / "windlass.db", count - 1)
    shop.windlass("server", "start")


def _copy_first_trial(database: Path, copies: int) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        [trial] = connection.execute("SELECT * FROM trials")
        ids = range(trial["id"] + 1, trial["id"] + 1 + copies)
        for trial_id in ids:
            _insert(connection, "trials", {**trial, "id": trial_id, "uid": uuid.uuid4().hex})
        tables = connection.execute(
            "SELECT tables.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS c"
            " WHERE tables.type = 'table' AND c.name = 'trial_id'"
        )
        for (table,) in tables.fetchall():
            for row in connection.execute(f"SELECT * FROM {table}").fetchall():
                columns = {name: row[name] for name in row.keys() if name != "id"}  # noqa: SIM118
                for trial_id in ids:
                    _insert(connection, table, {**columns, "trial_id": trial_id})


def _insert(connection: sqlite3.Connection, table: str, row: dict[str, object]) -> None:
    columns = ", ".join(f'"{name}"' for name in row)
    values = ", ".join(f":{name}" for name in row)
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({values})", row)

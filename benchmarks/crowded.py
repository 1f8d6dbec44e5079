"""A home that looks as if very many trials had been run: one was, the others are made of its rows.

Each has parameters and metrics of its own, so that there is something to find and to sort by.
"""

from __future__ import annotations

import json
import random
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from windlass.server.stores.trials.parameter_rows import to_rows

_METRICS = ("loss", "accuracy", "validation/loss", "lr")
_STATES = ["SUCCEEDED"] * 17 + ["FAILED"] * 2 + ["STOPPED"]
_PIECE = 5000


def crowd(database: Path, count: int, seed: int = 0) -> None:
    """Have so many trials in a database with one, whose server is stopped."""
    chance = random.Random(seed)
    connection = sqlite3.connect(database)
    connection.row_factory = sqlite3.Row
    try:
        first = dict(connection.execute("SELECT * FROM trials ORDER BY id LIMIT 1").fetchone())
        attempts = [
            dict(row)
            for row in connection.execute(
                "SELECT * FROM attempts WHERE trial_id = ?", [first["id"]]
            )
        ]
        ids = range(first["id"] + 1, first["id"] + count)
        for start in range(0, len(ids), _PIECE):
            with connection:
                _add(connection, first, attempts, ids[start : start + _PIECE], chance)
    finally:
        connection.close()


def _add(
    connection: sqlite3.Connection,
    first: dict[str, Any],
    attempts: list[dict[str, Any]],
    ids: range,
    chance: random.Random,
) -> None:
    trials = [_trial(first, each, chance) for each in ids]
    _insert(connection, "trials", trials)
    params = (row for each in trials for row in to_rows(each["id"], json.loads(each["params"])))
    _insert(connection, "parameters", list(params))
    _insert(connection, "summaries", [row for each in ids for row in _summaries(each, chance)])
    _insert(connection, "attempts", [{**row, "trial_id": each} for each in ids for row in attempts])


def _trial(first: dict[str, Any], trial_id: int, chance: random.Random) -> dict[str, Any]:
    params = {
        "lr": 10 ** chance.uniform(-5, 0),
        "layers": chance.randint(1, 8),
        "optimizer": chance.choice(["adam", "sgd", "lion"]),
        "shuffle": chance.random() < 0.5,
        "model": {"dim": chance.choice([64, 128, 256]), "act": "relu"},
        "seed": trial_id,
    }
    created = first["created"] + trial_id
    return {
        **first,
        "id": trial_id,
        "uid": uuid.UUID(int=chance.getrandbits(128)).hex,
        "name": chance.choice(["train", "evaluate"]),
        "state": chance.choice(_STATES),
        "created": created,
        "started": created + 0.1,
        "ended": created + chance.uniform(1, 1000),
        "params": json.dumps(params).encode(),
    }


def _summaries(trial_id: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for name in _METRICS:
        last = chance.random()
        yield {
            "trial_id": trial_id, "name": name, "count": 100, "finite": 100, "total": 100 * last,
            "mean": last, "min": last / 2, "max": last * 2, "last": last, "step": 99, "time": 1.0,
        }  # fmt: skip


def _insert(connection: sqlite3.Connection, table: str, rows: list[dict[str, Any]]) -> None:
    if rows:
        names = ", ".join(f'"{name}"' for name in rows[0])
        values = ", ".join(f":{name}" for name in rows[0])
        connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", rows)

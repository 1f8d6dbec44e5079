"""Fill the database of a home with very many trials, as if all of them had run.

One trial did run. SQL copies its rows, so that a million trials take less than a minute. Each trial
has its own hyper-parameters and metrics, to filter and to sort by.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_METRICS = ("accuracy", "loss", "lr", "validation/loss")
_TABLES = ("trials", "parameters", "summaries", "attempts")
# Numbers that look random but are the same in each run: a multiple of the id, modulo a prime.
_PRIME = 2_147_483_647
_FACTORS = (
    1_226_874_159, 742_938_285, 950_706_376, 1_343_714_438,
    630_360_016, 397_204_094, 2_049_513_912, 1_583_458_089,
)  # fmt: skip

_PARAMETERS = {  # by name: the number and the text of a row, as `parameter_rows.to_rows` has them
    "layers": ("layers", "NULL"),
    "lr": ("lr", "NULL"),
    "model.act": ("NULL", "'relu'"),
    "model.dim": ("dim", "NULL"),
    "optimizer": ("NULL", "optimizer"),
    "seed": ("id", "NULL"),
    "shuffle": ("shuffle", "CASE shuffle WHEN 1 THEN 'true' ELSE 'false' END"),
}
_PARAMS = """
CAST(json_object(
    'lr', lr, 'layers', layers, 'optimizer', optimizer,
    'shuffle', json(CASE shuffle WHEN 1 THEN 'true' ELSE 'false' END),
    'model', json_object('dim', dim, 'act', 'relu'), 'seed', draws.id
) AS BLOB)
"""
_CHANGED = {  # columns of a trial that are not those of the first one
    "id": "draws.id",
    "uid": "printf('%032x', draws.id)",
    "name": "draws.name",
    "state": "draws.state",
    "created": "first.created + draws.id",
    "started": "first.created + draws.id + 0.1",
    "ended": "first.created + draws.id + 1 + 1000 * random_7",
    "params": _PARAMS,
}


def add_trials(database: Path, count: int) -> None:
    """Add copies of the first trial of a database until it has `count` trials."""
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA synchronous = OFF")  # a benchmark outlives no power cut
        connection.execute("PRAGMA journal_mode = OFF")  # the server uses a log again
        connection.execute("PRAGMA cache_size = -500000")
        first = connection.execute("SELECT min(id), max(id) FROM trials").fetchone()
        indexes = _drop_indexes(connection)
        _draw(connection, first[1] + 1, count - 1)
        _copy_trials(connection, first[0])
        _add_parameters(connection)
        _add_summaries(connection)
        _copy_attempts(connection, first[0])
        for index in indexes:  # sorted at once, which is faster than row by row
            connection.execute(index)


def _drop_indexes(connection: sqlite3.Connection) -> list[str]:
    """Drop the indexes of the tables and return the statements that create them again."""
    places = ", ".join("?" * len(_TABLES))
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        f" AND tbl_name IN ({places})",
        _TABLES,
    ).fetchall()
    for row in rows:
        connection.execute(f"DROP INDEX {row['name']}")
    return [row["sql"] for row in rows]


def _draw(connection: sqlite3.Connection, first_id: int, count: int) -> None:
    """Create a table with the id and the values of each new trial."""
    randoms = ", ".join(
        f"(id * {factor} % {_PRIME}) / {_PRIME}.0 AS random_{number}"
        for number, factor in enumerate(_FACTORS)
    )
    connection.execute(
        f"""
        CREATE TEMP TABLE draws AS
        WITH RECURSIVE ids (id) AS (
            SELECT {first_id} UNION ALL SELECT id + 1 FROM ids WHERE id < {first_id + count - 1}
        ), numbers AS (SELECT id, {randoms} FROM ids)
        SELECT numbers.*,
            random_0 * random_0 * random_0 * random_0 AS lr,
            1 + CAST(8 * random_1 AS INTEGER) AS layers,
            CASE CAST(3 * random_2 AS INTEGER)
                WHEN 0 THEN 'adam' WHEN 1 THEN 'sgd' ELSE 'lion' END AS optimizer,
            CAST(2 * random_3 AS INTEGER) AS shuffle,
            64 << CAST(3 * random_4 AS INTEGER) AS dim,
            CASE CAST(2 * random_5 AS INTEGER) WHEN 0 THEN 'train' ELSE 'evaluate' END AS name,
            CASE CAST(20 * random_6 AS INTEGER)
                WHEN 0 THEN 'STOPPED' WHEN 1 THEN 'FAILED' WHEN 2 THEN 'FAILED'
                ELSE 'SUCCEEDED' END AS state
        FROM numbers
        """
    )


def _copy_trials(connection: sqlite3.Connection, first: int) -> None:
    columns = [row["name"] for row in connection.execute("PRAGMA table_info(trials)")]
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(_CHANGED.get(name, f'first."{name}"') for name in columns)
    connection.execute(
        f"INSERT INTO trials ({names}) SELECT {values}"
        f" FROM draws CROSS JOIN trials AS first WHERE first.id = {first} ORDER BY draws.id"
    )


def _add_parameters(connection: sqlite3.Connection) -> None:
    rows = " UNION ALL ".join(
        f"SELECT id, '{name}' AS name, {number}, {text} FROM draws"
        for name, (number, text) in _PARAMETERS.items()
    )
    connection.execute(
        f"INSERT INTO parameters (trial_id, name, number, text) {rows} ORDER BY id, name"
    )


def _add_summaries(connection: sqlite3.Connection) -> None:
    metrics = " UNION ALL ".join(
        f"SELECT '{name}' AS metric, {number + 1} AS factor" for number, name in enumerate(_METRICS)
    )
    value = f"((id * factor * {_FACTORS[0]} + 7919 * factor) % {_PRIME}) / {_PRIME}.0"
    connection.execute(
        f"""
        INSERT INTO summaries (
            trial_id, name, count, finite, total, mean, min, max, last, step, time
        )
        SELECT id, metric, 100, 100, 100 * value, value, value / 2, value * 2, value, 99, 1.0
        FROM (SELECT id, metric, {value} AS value FROM draws CROSS JOIN ({metrics}))
        ORDER BY id, metric
        """
    )


def _copy_attempts(connection: sqlite3.Connection, first: int) -> None:
    columns = [row["name"] for row in connection.execute("PRAGMA table_info(attempts)")]
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join("draws.id" if name == "trial_id" else f'"{name}"' for name in columns)
    connection.execute(
        f"INSERT INTO attempts ({names}) SELECT {values} FROM draws"
        f" CROSS JOIN attempts WHERE trial_id = {first} ORDER BY draws.id"
    )

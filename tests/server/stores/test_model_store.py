"""Numbers of model versions are unique, whichever server allocates them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.db.sqlite_connection import SqliteConnection
from windlass.server.stores.model_rows import insert_version

ADD_MODEL = "INSERT INTO models (uid, name, project_id, created) VALUES ('m', 'm', 1, 1.0)"


def connect(path: Path) -> SqliteConnection:
    """Connect as a server of its own, without the group transaction of its writer."""
    connection = SqliteConnection(path)
    connection.run("PRAGMA foreign_keys = OFF")  # the checkpoints do not exist
    return connection


def register(connection: SqliteConnection, checkpoint_id: int) -> int:
    values = dict.fromkeys(("user", "name", "notes"), "") | {"labels": None, "metadata": None}
    row_id = insert_version(connection, {"model_id": 1, "checkpoint_id": checkpoint_id, **values})
    number: int = connection.value(
        "SELECT version FROM model_versions WHERE id = :id", {"id": row_id}
    )
    return number


def before_each_statement(connection: SqliteConnection, act: Callable[[], object]) -> None:
    is_acting = False

    def traced(_statement: str) -> None:
        nonlocal is_acting
        if not is_acting:
            is_acting = True
            act()
            is_acting = False

    connection._raw.set_trace_callback(traced)


def test_versions_registered_between_any_two_statements_get_their_own_numbers(
    tmp_path: Path,
) -> None:
    path = tmp_path / "windlass.db"
    database = SqliteDatabase(path)
    database.write(lambda connection: connection.run(ADD_MODEL))
    one, other = connect(path), connect(path)
    numbers: list[int] = []
    checkpoints = iter(range(1, 100))
    before_each_statement(one, lambda: numbers.append(register(other, next(checkpoints))))
    numbers.append(register(one, next(checkpoints)))
    one.close()
    assert len(numbers) >= 3
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    last = other.value("SELECT last_version FROM models")
    assert last == len(numbers)
    other.close()
    database.close()

"""Migrations: numbered files that create and change a database's schema.

To change the schema, add `migrations/0002_<change>.sql`. A step that SQL cannot express is a `.py`
file with `def upgrade(connection)`. The table `schema_migrations` lists the migrations that were
applied to a database.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from sqlite3 import complete_statement

from windlass.model.errors import VersionMismatch, WindlassError
from windlass.server.db.base import Connection
from windlass.version import __version__

MIGRATIONS = Path(__file__).parent / "migrations"

_HISTORY = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version INTEGER NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    windlass TEXT NOT NULL,
    applied FLOAT NOT NULL
)
"""
_ANOTHER_HOME = "or choose another home: set WINDLASS_HOME."


def upgrade(connection: Connection, path: Path, folder: Path = MIGRATIONS) -> None:
    """Apply all new migrations to a database in one transaction.

    If the server is killed before the commit, the database does not change. If two servers open the
    same database at the same time, the second one waits and then finds no migration left to apply.
    """
    migrations = {int(file.name[:4]): file for file in sorted(folder.glob("[0-9]*_*.*"))}
    if _version(connection, path, max(migrations)) == max(migrations):
        return
    with connection.schema_change():
        # Read the version again, because another server may have upgraded the database.
        current = _version(connection, path, max(migrations))
        connection.run(_HISTORY)
        for version, file in migrations.items():
            if version > current:
                _apply(connection, version, file)


def _version(connection: Connection, path: Path, newest: int) -> int:
    """Return the number of the last migration applied to a database, or 0 for an empty database."""
    tables = connection.tables()
    if "schema_migrations" in tables:
        last = connection.row(
            "SELECT version, windlass FROM schema_migrations ORDER BY version DESC LIMIT 1"
        )
        version, windlass = (0, "") if last is None else (last["version"], last["windlass"])
        if version > newest:
            raise VersionMismatch(
                f"{path} was written by a newer version of Windlass ({windlass}) than this one "
                f"({__version__}).",
                hint=f"Use that version, {_ANOTHER_HOME}",
            )
        return int(version)
    if tables:
        raise WindlassError(
            f"{path} is not a database of Windlass. It has the tables of another program: "
            f"{', '.join(sorted(tables)[:5])}.",
            hint=f"Move it away, {_ANOTHER_HOME}",
        )
    return 0


def _apply(connection: Connection, version: int, file: Path) -> None:
    now = time.time()
    if file.suffix == ".py":
        import runpy

        runpy.run_path(str(file))["upgrade"](connection)
    else:
        for statement in _statements(file.read_text()):
            connection.run(statement, {"now": now})
    connection.run(
        "INSERT INTO schema_migrations (version, name, windlass, applied)"
        " VALUES (:version, :name, :windlass, :applied)",
        {"version": version, "name": file.stem, "windlass": __version__, "applied": now},
    )


def _statements(text: str) -> Iterator[str]:
    """Split a text into SQL statements. A semicolon inside a string does not end a statement.

    >>> list(_statements("CREATE TABLE a (text TEXT DEFAULT ';\\n');\\nDROP TABLE b"))
    ["CREATE TABLE a (text TEXT DEFAULT ';\\n');\\n", 'DROP TABLE b']
    """
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement

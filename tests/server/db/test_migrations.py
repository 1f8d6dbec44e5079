"""Migrations: a database is created, upgraded or refused, and never changed in part."""

from __future__ import annotations

import multiprocessing
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from database_contents import contents_of
from mounts import give_back, in_own_mounts, small_disk, take_space
from windlass.model.errors import VersionMismatch, WindlassError
from windlass.server.db.errors import ConstraintViolated, DatabaseUnavailable
from windlass.server.db.migrate import MIGRATIONS
from windlass.server.db.sqlite import SqliteDatabase
from windlass.server.errors import is_disk_full
from windlass.version import __version__

ADD_COLUMN = "ALTER TABLE experiments ADD COLUMN color TEXT DEFAULT 'red' NOT NULL;\n"
SET_COLOR = """
def upgrade(connection):
    for row in connection.rows("SELECT id, name FROM experiments"):
        connection.run("UPDATE experiments SET color = :name WHERE id = :id", dict(row))
"""
REBUILD = """
-- The way to change a column of a table that others refer to, as SQLite's documentation says.
CREATE TABLE new_workspaces (id INTEGER PRIMARY KEY, uid TEXT, name TEXT NOT NULL);
INSERT INTO new_workspaces SELECT id, uid, name FROM workspaces;
DROP TABLE workspaces;
ALTER TABLE new_workspaces RENAME TO workspaces;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "windlass.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the migrations, to which a test adds its own."""
    folder = tmp_path / "migrations"
    shutil.copytree(MIGRATIONS, folder)
    return folder


def create(path: Path) -> None:
    """Create a database with an experiment."""
    database = SqliteDatabase(path)
    add = "INSERT INTO experiments (name, created) VALUES ('green', 1.0)"
    database.write(lambda connection: connection.run(add))
    database.close()


def query(path: Path, statement: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(statement).fetchall()


def test_migrations_are_numbered_without_gaps_or_repetitions() -> None:
    numbers = [int(file.name[:4]) for file in sorted(MIGRATIONS.glob("[0-9]*"))]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_new_database_has_the_default_workspace_and_project(path: Path) -> None:
    SqliteDatabase(path).close()
    [(name, created)] = query(path, "SELECT name, created FROM workspaces WHERE id = 1")
    assert name == "default" and abs(created - time.time()) < 60
    assert query(path, "SELECT name, workspace_id, created FROM projects WHERE id = 1") == [
        ("default", 1, created)
    ]
    [(version, name, windlass)] = query(
        path, "SELECT version, name, windlass FROM schema_migrations"
    )
    assert (version, name, windlass) == (1, "0001_initial", __version__)


def test_a_new_column_needs_only_a_file_with_the_next_number(path: Path, folder: Path) -> None:
    create(path)
    (folder / "0002_experiment_color.sql").write_text(ADD_COLUMN)
    SqliteDatabase(path, folder).close()
    assert query(path, "SELECT name, color FROM experiments") == [("green", "red")]
    (folder / "0003_set_color.py").write_text(SET_COLOR)
    SqliteDatabase(path, folder).close()
    assert query(path, "SELECT name, color FROM experiments") == [("green", "green")]
    assert query(path, "SELECT version, name FROM schema_migrations ORDER BY version") == [
        (1, "0001_initial"),
        (2, "0002_experiment_color"),
        (3, "0003_set_color"),
    ]
    before = contents_of(path)
    SqliteDatabase(path, folder).close()
    assert contents_of(path) == before


def test_a_new_database_and_an_upgraded_one_have_the_same_schema(path: Path, folder: Path) -> None:
    SqliteDatabase(path).close()
    (folder / "0002_experiment_color.sql").write_text(ADD_COLUMN)
    SqliteDatabase(path, folder).close()
    new = path.with_name("new.db")
    SqliteDatabase(new, folder).close()
    assert contents_of(path) == contents_of(new)


def test_a_migration_may_rebuild_a_table_that_others_refer_to(path: Path, folder: Path) -> None:
    create(path)
    (folder / "0002_rebuild.sql").write_text(REBUILD)
    database = SqliteDatabase(path, folder)
    assert query(path, "SELECT id, name FROM workspaces") == [(1, "default")]
    orphan = "INSERT INTO projects (uid, workspace_id, name, created) VALUES ('', 9, '', 1.0)"
    with pytest.raises(ConstraintViolated):  # foreign keys are checked again
        database.write(lambda connection: connection.run(orphan))
    database.close()


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("0002_a.sql", ADD_COLUMN + "INSERT INTO nowhere VALUES (1);", "no such table: nowhere"),
        ("0002_a.sql", ADD_COLUMN + "CREATE TABLE projects (name TEXT);", "already exists"),
        ("0002_a.sql", "DELETE FROM workspaces;", "projects refers to a missing row of workspaces"),
        ("0002_a.py", "def upgrade(connection):\n    raise ValueError('no JSON')", "no JSON"),
    ],
)
def test_a_migration_that_fails_is_reported_and_changes_nothing(
    path: Path, folder: Path, name: str, text: str, reason: str
) -> None:
    create(path)
    before = contents_of(path)
    (folder / name).write_text(text)
    with pytest.raises(WindlassError, match="cannot be upgraded to") as caught:
        SqliteDatabase(path, folder)
    assert str(path) in caught.value.message and reason in caught.value.message
    assert caught.value.hint is not None and "The file was not changed" in caught.value.hint
    assert contents_of(path) == before
    SqliteDatabase(path).close()  # the version that wrote it still opens it


def test_a_database_of_a_newer_version_is_refused_and_unchanged(path: Path) -> None:
    create(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO schema_migrations VALUES (9999, '9999_x', '7.1.0', 1.0)")
    before = contents_of(path)
    with pytest.raises(VersionMismatch, match="newer version of Windlass") as caught:
        SqliteDatabase(path)
    assert "(7.1.0)" in caught.value.message and f"({__version__})" in caught.value.message
    assert caught.value.hint is not None and "WINDLASS_HOME" in caught.value.hint
    assert contents_of(path) == before


def test_a_database_of_another_program_is_refused_and_unchanged(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    before = contents_of(path)
    with pytest.raises(WindlassError, match=r"not a database of Windlass\..*: notes"):
        SqliteDatabase(path)
    assert contents_of(path) == before


def open_together(path: Path, folder: Path, barrier: multiprocessing.synchronize.Barrier) -> None:
    barrier.wait(60)
    SqliteDatabase(path, folder).close()


@pytest.mark.parametrize("exists", [False, True], ids=["create", "upgrade"])
def test_servers_that_open_a_database_at_once_change_it_once(
    tmp_path: Path, folder: Path, exists: bool
) -> None:
    context = multiprocessing.get_context("fork")
    for number in range(10):
        path = tmp_path / f"{number}.db"
        if exists:
            create(path)
        (folder / "0002_experiment_color.sql").write_text(ADD_COLUMN)
        barrier = context.Barrier(3)
        servers = [
            context.Process(target=open_together, args=(path, folder, barrier)) for _ in range(3)
        ]
        for server in servers:
            server.start()
        for server in servers:
            server.join(60)
        assert [server.exitcode for server in servers] == [0, 0, 0]
        assert query(path, "SELECT version FROM schema_migrations") == [(1,), (2,)]
        assert query(path, "SELECT count(*) FROM workspaces") == [(1,)]


@in_own_mounts
@pytest.mark.thorough
def test_an_upgrade_on_a_full_disk_changes_nothing_and_succeeds_later(
    tmp_path: Path, folder: Path
) -> None:
    fill = "UPDATE experiments SET notes = hex(zeroblob(1000000));\n"
    (folder / "0002_experiment_color.sql").write_text(ADD_COLUMN + fill)
    with small_disk(tmp_path / "disk", size="8m") as disk:
        path = disk / "windlass.db"
        create(path)
        before = contents_of(path)
        take_space(disk, leave=40_000)  # enough to start with
        with pytest.raises(DatabaseUnavailable, match="disk is full") as caught:
            SqliteDatabase(path, folder)
        assert is_disk_full(caught.value)
        give_back(disk)
        assert contents_of(path) == before
        SqliteDatabase(path, folder).close()
        assert query(path, "SELECT color, length(notes) FROM experiments") == [("red", 2_000_000)]

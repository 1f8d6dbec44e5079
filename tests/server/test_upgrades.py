"""A database of every earlier version is brought to the newest, and all that it held is there."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from earlier import EARLIER, contents_of, make_database
from mounts import give_back, in_own_mounts, small_disk, take_space
from windlass.model.errors import WindlassError
from windlass.server.database import Database
from windlass.server.experiments import ExperimentStore
from windlass.server.faults import is_no_space
from windlass.server.migrations import HEAD
from windlass.server.migrations.migrate import migrate
from windlass.server.trials import TrialStore


@pytest.mark.parametrize("revision", EARLIER)
def test_what_an_earlier_version_stored_is_there_after_the_upgrade(
    tmp_path: Path, revision: str
) -> None:
    path = tmp_path / "windlass.db"
    make_database(path, revision)
    database = Database(path)
    try:
        trials = TrialStore(database)
        record = asyncio.run(trials.record(7))
        assert (record.name, record.experiment, record.state.value) == ("mnist", "mnist", "FAILED")
        assert record.project == ("vision" if revision < "0008" else "default")
        assert record.params == {"lr": 0.1, "model": {"depth": 3}, "name": "x"}
        assert (record.started, record.ended, record.restarts) == (3.0, 4.0, 1)
        assert (record.message, record.exit_code) == ("exit code 1", 1)
        assert [(each.attempt, each.node) for each in record.attempts] == [(2, "here")]
        [event] = asyncio.run(trials.events(7))
        assert event.message == "made"
        if revision >= "0003":
            assert record.labels == ("baseline",)
            loss = record.metrics["loss"]
            assert (loss.count, loss.min, loss.max, loss.mean) == (4, 1.0, 3.0, 2.0)
            assert (loss.last, loss.step) == (2.0, 9)
        experiment = asyncio.run(ExperimentStore(database).record("mnist"))
        assert (experiment.id, experiment.trials) == (3, 1)
        assert experiment.notes == ("0.3 diverges" if revision >= "0003" else "")
        assert experiment.state.value == "FAILED"
        version = database.read(lambda each: each.value("SELECT version_num FROM alembic_version"))
        assert version == HEAD
    finally:
        database.close()


def test_every_revision_is_among_those_that_are_tried() -> None:
    versions = Path(__file__).parents[2] / "src/windlass/server/migrations/versions"
    assert sorted(each.name[:4] for each in versions.glob("[0-9]*.py")) == [*EARLIER, HEAD]


@contextmanager
def statements_run() -> Iterator[list[str]]:
    """The statements that SQLAlchemy has run meanwhile."""
    found: list[str] = []

    def run(connection: object, cursor: object, statement: str, *more: object) -> None:
        found.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", run)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", run)


def begun(path: Path) -> list[str]:
    """What an upgrade does to tables before the first row that it changes; it is upgraded."""
    with statements_run() as statements:
        migrate(path)
    found: list[str] = []
    for statement in statements[statements.index("BEGIN IMMEDIATE") + 1 :]:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            break
        if statement.lstrip().startswith(("CREATE", "ALTER", "DROP")):
            found.append(statement)
    return found


@pytest.mark.parametrize(
    ("revision", "has_parameters"),
    [("base", False), *((revision, True) for revision in EARLIER), ("0005", False)],
)
def test_an_upgrade_that_an_earlier_version_was_killed_in_is_taken_back_and_done_again(
    tmp_path: Path, revision: str, has_parameters: bool
) -> None:
    """Such versions had each of those statements stand for itself, and one transaction after."""
    earlier, path = tmp_path / "earlier.db", tmp_path / "windlass.db"
    make_database(earlier, revision)
    if revision == "0005" and not has_parameters:  # then it goes on to the indexes
        with closing(sqlite3.connect(earlier)) as connection, connection:
            connection.execute("UPDATE trials SET params = '{}'")
    shutil.copy(earlier, path)
    statements = begun(path)
    after = contents_of(path)
    for number in range(1, len(statements) + 1):
        torn = tmp_path / f"torn-{number}.db"
        shutil.copy(earlier, torn)
        with closing(sqlite3.connect(torn, isolation_level=None)) as connection:
            for statement in statements[:number]:
                connection.execute(statement)
        assert contents_of(torn) != contents_of(earlier)
        Database(torn).close()
        assert contents_of(torn) == after, statements[:number]


def test_what_cannot_be_upgraded_is_told_and_left_to_the_version_that_wrote_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "windlass.db"
    make_database(path, "0004")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE trials SET params = 'no JSON'")
    before = contents_of(path)
    with pytest.raises(WindlassError, match="cannot be brought to") as told:
        Database(path)
    assert str(path) in told.value.message
    assert told.value.hint is not None and "Nothing in it was changed" in told.value.hint
    assert contents_of(path) == before


def test_a_table_in_the_way_of_an_upgrade_is_not_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    make_database(path, "0007")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE projects (name TEXT)")
        connection.execute("INSERT INTO projects VALUES ('mine')")
    before = contents_of(path)
    with pytest.raises(WindlassError, match="table projects already exists"):
        Database(path)
    assert contents_of(path) == before


@in_own_mounts
def test_an_upgrade_without_room_on_the_disk_changes_nothing_and_is_done_when_there_is(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path / "disk", size="4m") as disk:
        path = disk / "windlass.db"
        make_database(path, "0001")
        before = contents_of(path)
        take_space(disk, leave=40_000)  # enough to begin with
        with pytest.raises(Exception, match="disk is full") as told:
            Database(path)
        assert is_no_space(told.value, disk)  # so it is told with what to do
        give_back(disk)
        assert contents_of(path) == before
        Database(path).close()
        assert contents_of(path) != before

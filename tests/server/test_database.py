"""The database: changes in groups, each for itself, and kept whatever comes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.model.errors import VersionMismatch, WindlassError
from windlass.server.database import Connection, Database
from windlass.server.listing import Asked
from windlass.server.migrations import HEAD
from windlass.server.migrations.migrate import migrate
from windlass.server.trials import TrialStore

ADD = "INSERT INTO experiments (name, created) VALUES (:name, 1.0)"


def add(connection: Connection, name: str) -> str:
    connection.run(ADD, {"name": name})
    return name


def names(database: Database) -> list[str]:
    query = "SELECT name FROM experiments ORDER BY id"
    return database.read(lambda connection: [row["name"] for row in connection.rows(query)])


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "windlass.db")
    yield database
    database.close()


class Held:
    """A change that holds the writer up, so that all that comes meanwhile is one group."""

    def __init__(self, database: Database) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self.future = database.submit(self._change)
        assert self._reached.wait(60)

    def _change(self, connection: Connection) -> None:
        self._reached.set()
        assert self._go.wait(60)

    def let_go(self) -> None:
        self._go.set()


def test_a_change_that_fails_takes_no_other_of_its_group_with_it(database: Database) -> None:
    held = Held(database)

    def half(connection: Connection) -> None:
        add(connection, "undone")
        raise ValueError("no more")

    def broken(connection: Connection) -> None:
        add(connection, "undone too")
        connection.run(ADD, {"name": None})

    futures = [
        database.submit(lambda connection: add(connection, "first")),
        database.submit(half),
        database.submit(lambda connection: add(connection, "second")),
        database.submit(broken),
        database.submit(lambda connection: add(connection, "third")),
    ]
    assert not any(future.done() for future in futures)
    held.let_go()
    assert [futures[n].result(60) for n in (0, 2, 4)] == ["first", "second", "third"]
    with pytest.raises(ValueError, match="no more"):
        futures[1].result(60)
    with pytest.raises(sqlite3.IntegrityError):
        futures[3].result(60)
    assert names(database) == ["first", "second", "third"]


def test_nobody_is_told_before_the_group_is_stored(database: Database) -> None:
    held = Held(database)
    seen: list[list[str]] = []
    first = database.submit(lambda connection: add(connection, "first"))
    first.add_done_callback(lambda _: seen.append(names(database)))
    last = database.submit(lambda connection: (add(connection, "last"), first.done()))
    held.let_go()
    assert last.result(60) == ("last", False)
    first.result(60)
    assert seen == [["first", "last"]]


def test_a_caller_that_gives_up_waiting_stops_nobody_elses_change(database: Database) -> None:
    held = Held(database)

    async def give_up() -> None:
        waiting = asyncio.create_task(database.awrite(lambda connection: add(connection, "one")))
        await asyncio.sleep(0)  # so that it is asked for
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    held.let_go()
    assert database.submit(lambda connection: add(connection, "two")).result(60) == "two"
    assert names(database) == ["one", "two"]  # what was asked for is done


def test_many_threads_lose_nothing(database: Database) -> None:
    def write(start: int) -> None:
        for number in range(start, start + 25):
            database.write(lambda connection, name=str(number): add(connection, name))

    threads = [threading.Thread(target=write, args=(25 * n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(int, names(database))) == list(range(200))


def test_what_was_confirmed_outlives_a_kill(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from windlass.server.database import Database
database = Database(Path(sys.argv[1]))
add = "INSERT INTO experiments (name, created) VALUES (:name, 1.0)"
for number in range(20):
    database.write(lambda connection: connection.run(add, {"name": str(number)}))
    print(number, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "windlass.db"
    done = subprocess.run(
        [sys.executable, "-c", program, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    database = Database(path)
    assert names(database) == done.stdout.split() == [str(number) for number in range(20)]
    database.close()
    assert oct(os.stat(path).st_mode)[-3:] == "600"


def test_closing_finishes_what_was_begun(tmp_path: Path) -> None:
    database = Database(tmp_path / "windlass.db")
    futures = [
        database.submit(lambda connection, name=str(n): add(connection, name)) for n in range(50)
    ]
    database.close()
    assert [future.result(60) for future in futures] == [str(n) for n in range(50)]
    again = Database(tmp_path / "windlass.db")  # the schema is there: nothing is lost
    assert len(names(again)) == 50
    again.close()


def test_what_follows_a_change_is_told_after_its_commit_and_in_order(database: Database) -> None:
    held = Held(database)
    told: list[tuple[str, list[str]]] = []
    futures = [
        database.submit(
            lambda connection, name=name: add(connection, name),
            lambda name: told.append((name, names(database))),
        )
        for name in ("first", "second")
    ]
    held.let_go()
    for future in futures:
        future.result(60)
    assert told == [("first", ["first", "second"]), ("second", ["first", "second"])]


def schema_of(path: Path) -> dict[str, str]:
    """Every table and index there is, white space aside, and the version that is noted."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        found = {name: re.sub(r" (?=[,)])", "", " ".join(sql.split())) for name, sql in rows}
        (found["version"],) = connection.execute(
            "SELECT version_num FROM alembic_version"
        ).fetchone()
    return found


def test_a_new_database_is_what_the_migrations_come_to(tmp_path: Path) -> None:
    Database(tmp_path / "new.db").close()
    migrate(tmp_path / "migrated.db")
    assert schema_of(tmp_path / "new.db") == schema_of(tmp_path / "migrated.db")
    assert schema_of(tmp_path / "new.db")["version"] == HEAD


def test_a_database_that_was_never_stamped_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE notes (text TEXT)")
    Database(path).close()
    assert schema_of(path)["version"] == HEAD


def test_a_database_of_an_older_version_is_migrated_with_its_trials(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    migrate(path, to="0001")
    spec = '{"roles": [{"executable": {"type": "process", "argv": ["true"]}}]}'
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO experiments VALUES (1, 'default', 'mnist', 1.0)")
        connection.execute(
            "INSERT INTO trials (uid, experiment_id, name, state, settled, created, restarts, "
            "signal, reason, message, priority, user, params, spec, status, provenance) VALUES "
            "('0a', 1, 'mnist', 'FAILED', 1, 1.0, 0, '', 'ReplicaFailed', 'exit code 1', 0, '', "
            "'{}', ?, '{}', '{}')",
            [spec],
        )
    database = Database(path)
    record = asyncio.run(TrialStore(database).record(1))
    database.close()
    assert schema_of(path)["version"] == HEAD
    assert (record.message, record.cause) == ("exit code 1", None)


def test_trials_of_an_older_version_are_found_by_their_parameters(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    migrate(path, to="0004")
    spec = '{"roles": [{"executable": {"type": "process", "argv": ["true"]}}]}'
    params = ['{"lr": 0.1, "model": {"act": "relu"}}', "{}", '{"lr": 0.5, "deep": true}']
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO experiments (id, project, name, created) VALUES (1, 'default', 'm', 1.0)"
        )
        connection.executemany(
            "INSERT INTO trials (uid, experiment_id, name, state, settled, created, restarts, "
            "signal, reason, message, priority, user, params, spec, status, provenance) VALUES "
            "(?, 1, 'm', 'FAILED', 1, 1.0, 0, '', '', '', 0, 'ada', ?, ?, '{}', '{}')",
            # more than are read in one piece
            [(f"{number:032x}", params[number % 3].encode(), spec) for number in range(2500)],
        )
    database = Database(path)

    def ids(where: str) -> list[int]:
        page = asyncio.run(TrialStore(database).page(Asked(where=where, limit=2500)))
        return [record.id for record in page.items]

    assert ids("hparams.lr < 0.2") == ids("hparams.model.act = relu") == list(range(1, 2501, 3))
    assert ids("hparams.deep = true and user = ada") == list(range(3, 2501, 3))
    assert ids("hparams.lr is null") == list(range(2, 2501, 3))
    database.close()


def test_a_database_of_a_newer_version_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    Database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(VersionMismatch, match="newer version of Windlass"):
        Database(path)
    assert schema_of(path)["version"] == "9999"


@pytest.mark.parametrize("damage", [b"no database at all " * 100, None])
def test_a_damaged_database_is_named_and_left_alone(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "windlass.db"
    Database(path).close()
    path.write_bytes(damage or path.read_bytes()[:5000])
    before = path.read_bytes()
    with pytest.raises(WindlassError, match=re.escape(f"{path} cannot be read")):
        Database(path)
    assert path.read_bytes() == before

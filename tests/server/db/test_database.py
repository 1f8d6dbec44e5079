"""The database groups changes, isolates their failures, and keeps confirmed ones."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from windlass.model.errors import WindlassError
from windlass.server.db.base import Connection, Database
from windlass.server.db.errors import (
    ConstraintViolated,
    DatabaseError,
    DuplicateKey,
)
from windlass.server.db.sqlite import SqliteDatabase

ADD = "INSERT INTO experiments (name, created) VALUES (:name, 1.0)"


def add(connection: Connection, name: str) -> str:
    connection.run(ADD, {"name": name})
    return name


def names(database: Database) -> list[str]:
    query = "SELECT name FROM experiments ORDER BY id"
    return database.read(lambda connection: [row["name"] for row in connection.rows(query)])


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = SqliteDatabase(tmp_path / "windlass.db")
    yield database
    database.close()


class Held:
    """A change that blocks the writer, so that all later changes form one group."""

    def __init__(self, database: Database) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self.future = database.submit(self._change)
        assert self._reached.wait(60)

    def _change(self, connection: Connection) -> None:
        self._reached.set()
        assert self._go.wait(60)

    def release(self) -> None:
        self._go.set()


def test_a_failed_change_does_not_affect_others_of_its_group(database: Database) -> None:
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
    held.release()
    assert [futures[n].result(60) for n in (0, 2, 4)] == ["first", "second", "third"]
    with pytest.raises(ValueError, match="no more"):
        futures[1].result(60)
    with pytest.raises(ConstraintViolated):
        futures[3].result(60)
    assert names(database) == ["first", "second", "third"]


@pytest.mark.finding("A15")
def test_a_callback_that_raises_after_a_commit_does_not_end_the_writer(database: Database) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("no callback")

    held = Held(database)
    first = database.submit(lambda connection: add(connection, "first"), fail)
    second = database.submit(lambda connection: add(connection, "second"))
    held.release()
    assert (first.result(60), second.result(60)) == ("first", "second")
    assert database.submit(lambda connection: add(connection, "third")).result(60) == "third"
    assert names(database) == ["first", "second", "third"]


@pytest.mark.finding("A15")
def test_an_error_of_the_disk_is_not_reported_as_a_full_disk(tmp_path: Path) -> None:
    program = f"""
import errno, resource
from pathlib import Path
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.db.sqlite import SqliteDatabase

database = SqliteDatabase(Path({str(tmp_path / "windlass.db")!r}))
size = Path({str(tmp_path / "windlass.db-wal")!r}).stat().st_size
# A write beyond this size fails, for another reason than a full disk.
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10_000, resource.RLIM_INFINITY))
try:
    database.write(lambda connection: connection.run(
        "INSERT INTO experiments (name, created, notes) VALUES ('x', 1.0, :notes)",
        {{"notes": "n" * 1_000_000}},
    ))
except DatabaseUnavailable as error:
    print(error, errno.errorcode[error.errno])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "disk I/O error EIO\n", done.stdout + done.stderr


def test_no_caller_is_notified_before_the_group_is_stored(database: Database) -> None:
    held = Held(database)
    seen: list[list[str]] = []
    first = database.submit(lambda connection: add(connection, "first"))
    first.add_done_callback(lambda _: seen.append(names(database)))
    last = database.submit(lambda connection: (add(connection, "last"), first.done()))
    held.release()
    assert last.result(60) == ("last", False)
    first.result(60)
    assert seen == [["first", "last"]]


def test_a_caller_that_stops_waiting_cancels_no_other_change(database: Database) -> None:
    held = Held(database)

    async def give_up() -> None:
        waiting = asyncio.create_task(database.awrite(lambda connection: add(connection, "one")))
        await asyncio.sleep(0)  # so that the change is queued
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(give_up())
    held.release()
    assert database.submit(lambda connection: add(connection, "two")).result(60) == "two"
    assert names(database) == ["one", "two"]  # queued changes are executed


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


def test_confirmed_changes_survive_a_kill(tmp_path: Path) -> None:
    program = """
import os, signal, sys
from pathlib import Path
from windlass.server.db.errors import (
    ConstraintViolated,
    DatabaseError,
    DatabaseUnavailable,
    DuplicateKey,
)
from windlass.server.db.sqlite import SqliteDatabase
database = SqliteDatabase(Path(sys.argv[1]))
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
    database = SqliteDatabase(path)
    assert names(database) == done.stdout.split() == [str(number) for number in range(20)]
    database.close()
    assert oct(os.stat(path).st_mode)[-3:] == "600"


def test_closing_finishes_started_changes(tmp_path: Path) -> None:
    database = SqliteDatabase(tmp_path / "windlass.db")
    futures = [
        database.submit(lambda connection, name=str(n): add(connection, name)) for n in range(50)
    ]
    database.close()
    assert [future.result(60) for future in futures] == [str(n) for n in range(50)]
    again = SqliteDatabase(tmp_path / "windlass.db")  # the schema exists: nothing is lost
    assert len(names(again)) == 50
    again.close()


def test_callbacks_run_after_the_commit_and_in_order(database: Database) -> None:
    held = Held(database)
    notifications: list[tuple[str, list[str]]] = []
    futures = [
        database.submit(
            lambda connection, name=name: add(connection, name),
            lambda name: notifications.append((name, names(database))),
        )
        for name in ("first", "second")
    ]
    held.release()
    for future in futures:
        future.result(60)
    assert notifications == [("first", ["first", "second"]), ("second", ["first", "second"])]


@pytest.mark.parametrize("damage", [b"no database at all " * 100, None])
def test_a_damaged_database_is_named_and_unchanged(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "windlass.db"
    SqliteDatabase(path).close()
    path.write_bytes(damage or path.read_bytes()[:5000])
    before = path.read_bytes()
    with pytest.raises(WindlassError, match=re.escape(f"{path} cannot be read")):
        SqliteDatabase(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("INSERT INTO workspaces (id, uid, name, created) VALUES (1, '', 'x', 1.0)", DuplicateKey),
        ("INSERT INTO workspaces (uid, name, created) VALUES ('', 'default', 1.0)", DuplicateKey),
        ("INSERT INTO experiments (name) VALUES (NULL)", ConstraintViolated),
        ("INSERT INTO projects (uid, workspace_id, name, created) VALUES ('', 9, '', 1.0)",
         ConstraintViolated),
        ("SELECT nothing FROM nowhere", DatabaseError),
        ("not a statement", DatabaseError),
        ("SELECT :missing", DatabaseError),
    ],
)  # fmt: skip
def test_errors_of_statements_are_our_own(
    database: Database, statement: str, kind: type[DatabaseError]
) -> None:
    with pytest.raises(DatabaseError) as caught:
        database.write(lambda connection: connection.run(statement))
    assert type(caught.value) is kind
    if statement.startswith(("SELECT", "not")):
        with pytest.raises(DatabaseError) as caught:
            database.read(lambda connection: connection.rows(statement))
        assert type(caught.value) is kind


def test_a_damaged_file_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "windlass.db"
    database = SqliteDatabase(path)
    database.write(lambda connection: [add(connection, str(number)) for number in range(2000)])
    database.close()
    with path.open("r+b") as file:  # all pages but the first
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))
    with pytest.raises(WindlassError, match="cannot be read"):
        SqliteDatabase(path)

"""The database: many readers, one writer that commits in groups.

Everything that waits to be written when the writer comes round goes into one
transaction, each piece in a savepoint of its own: a thousand submissions cost a
handful of disk syncs, and one that fails takes no other with it.

Statements are text with named parameters, run by the driver itself: building and
compiling them anew would cost more than running them.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from windlass.model.errors import VersionMismatch, WindlassError
from windlass.server.migrations import HEAD
from windlass.version import __version__

T = TypeVar("T")
Row = sqlite3.Row

_GROUP = 500
_OF_THE_DISK = (5, 6, 8, 10, 13, 14)  # busy, locked, read-only, unreadable, full, not to be opened
_NEWEST = Path(__file__).parent / "migrations" / "newest.sql"


class Connection:
    """One connection: statements with named parameters, rows whose columns have names."""

    def __init__(self, path: Path) -> None:
        # No transactions but those we begin; used by one thread at a time, not always the same.
        self._raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._raw.row_factory = sqlite3.Row
        for pragma in (
            "busy_timeout = 10000",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            self._raw.execute(f"PRAGMA {pragma}")

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement; how many rows it changed."""
        return self._raw.execute(statement, parameters or {}).rowcount

    def run_many(self, statement: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each set of parameters."""
        self._raw.executemany(statement, parameters)

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """All rows of an answer."""
        return self._raw.execute(statement, parameters or {}).fetchall()

    def row(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """The first row of an answer, if it has one."""
        found: Row | None = self._raw.execute(statement, parameters or {}).fetchone()
        return found

    def each(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """The rows of an answer, a few in memory at a time."""
        yield from self._raw.execute(statement, parameters or {})

    def text_columns(self) -> dict[str, list[str]]:
        """The columns of every table that hold text or bytes."""
        tables = self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {
            table["name"]: [
                column["name"]
                for column in self.rows(f"PRAGMA table_info({table['name']})")
                if column["type"] in ("TEXT", "BLOB")
            ]
            for table in tables
        }

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """The first value of the first row of an answer, or none."""
        found = self.row(statement, parameters)
        return None if found is None else found[0]

    def close(self) -> None:
        self._raw.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:  # whatever it is, nothing half is stored
            if self._raw.in_transaction:  # some errors end it by themselves
                self.run("ROLLBACK")
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Inside a transaction: all of it or nothing."""
        self.run("SAVEPOINT change")
        try:
            yield
        except BaseException:  # as above
            if self._raw.in_transaction:
                self.run("ROLLBACK TO change")
                self.run("RELEASE change")
            raise
        self.run("RELEASE change")


class Database:
    """A SQL database that is at the newest schema.

    `write` and `read` take a function of a connection; both can be called from any
    thread, `awrite` and `aread` from the event loop.
    """

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._path = path
        self._idle: queue.SimpleQueue[Connection] = queue.SimpleQueue()
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="windlass-read")
        self._connection = _open(path)  # the writer's
        self._writer = threading.Thread(target=self._write_all, name="windlass-write", daemon=True)
        self._writer.start()

    def submit(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> Future[T]:
        """Make a change; the future is done once it is durable.

        `then` is told the value right after the commit, in the order of the changes.
        """
        future: Future[T] = Future()
        # What was asked for is done, whether or not the one who asked still waits.
        future.set_running_or_notify_cancel()
        self._writes.put(_Write(change, future, then))
        return future

    def write(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Make a change and wait until it is durable."""
        return self.submit(change, then).result()

    async def awrite(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """`write` for the event loop."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()

        def tell(done: Future[T]) -> None:
            loop.call_soon_threadsafe(_copy, done, waiting)

        self.submit(change, then).add_done_callback(tell)
        return await waiting

    def read(self, query: Callable[[Connection], T]) -> T:
        """Look something up."""
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = Connection(self._path)
        try:
            return query(connection)
        finally:
            self._idle.put(connection)

    async def aread(self, query: Callable[[Connection], T]) -> T:
        """`read` for the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.read, query)

    def close(self) -> None:
        """Finish what is being written, and let go."""
        self._writes.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._connection.close()
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _write_all(self) -> None:
        while True:
            group = self._next_group()
            if group:
                self._write_group([write for write in group if write is not None])
            if None in group:
                return

    def _next_group(self) -> list[_Write | None]:
        group = [self._writes.get()]
        while len(group) < _GROUP and group[-1] is not None:
            try:
                group.append(self._writes.get_nowait())
            except queue.Empty:
                break
        return group

    def _write_group(self, group: list[_Write]) -> None:
        try:
            with self._connection.transaction():
                for write in group:
                    write.run(self._connection)
        except Exception as error:  # noqa: BLE001 -- each waiting caller is told
            for write in group:
                write.refuse(error)
        else:
            for write in group:
                write.settle()


class _Write:
    """One change with whoever waits for it; it settles only after the commit."""

    def __init__(
        self,
        change: Callable[[Connection], Any],
        future: Future[Any],
        then: Callable[[Any], None] | None,
    ) -> None:
        self._change = change
        self._future = future
        self._then = then
        self._value: Any = None
        self._error: Exception | None = None

    def run(self, connection: Connection) -> None:
        try:
            with connection.savepoint():
                self._value = self._change(connection)
        except sqlite3.OperationalError:
            raise  # a full disk or a lost database concerns the whole group
        except Exception as error:  # noqa: BLE001 -- handed to the caller by settle
            self._error = error

    def settle(self) -> None:
        if self._error is not None:
            self._future.set_exception(self._error)
            return
        if self._then is not None:
            self._then(self._value)
        self._future.set_result(self._value)

    def refuse(self, error: Exception) -> None:
        self._future.set_exception(self._error or error)


def _copy(done: Future[T], waiting: asyncio.Future[T]) -> None:
    if waiting.cancelled():
        return
    error = done.exception()
    if error is None:
        waiting.set_result(done.result())
    else:
        waiting.set_exception(error)


def _open(path: Path) -> Connection:
    """A connection to a database that is at the newest schema now."""
    try:
        connection = Connection(path)
        _upgrade(connection, path)
    except sqlite3.OperationalError:
        raise  # a full disk, a database that is locked: nothing is wrong with the file
    except sqlite3.DatabaseError as error:
        raise WindlassError(
            f"{path} cannot be read: {error}.",
            hint="Put a copy of it back, or move it away to begin anew.",
        ) from error
    return connection


def _upgrade(connection: Connection, path: Path) -> None:
    """Bring the schema to `HEAD`: at once if nothing is there, else by the migrations.

    Alembic, and SQLAlchemy with it, is only loaded for a database of an older version.
    """
    revision = _revision(connection)
    if revision == HEAD:
        return
    if revision is not None and revision > HEAD:
        raise VersionMismatch(
            f"{path} was written by a newer version of Windlass than {__version__}.",
            hint="Use that version, or another home: set WINDLASS_HOME.",
        )
    if connection.value("SELECT count(*) FROM sqlite_master") == 0:
        with connection.transaction():
            for statement in _NEWEST.read_text().split(";\n"):
                if statement.strip():
                    connection.run(statement)
        return
    _migrate(path)


def _migrate(path: Path) -> None:
    from windlass.server.migrations.migrate import migrate

    try:
        migrate(path)
    except Exception as error:
        cause = getattr(error, "orig", None) or error  # SQLAlchemy's are about one of the driver
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _OF_THE_DISK:  # since Python 3.11
            raise
        raise WindlassError(
            f"{path} is of an older version of Windlass and cannot be brought to {__version__}: "
            f"{cause}.",
            hint="Nothing in it was changed: use the version that wrote it, or another home: "
            "set WINDLASS_HOME.",
        ) from error


def _revision(connection: Connection) -> str | None:
    known = "SELECT count(*) FROM sqlite_master WHERE name = 'alembic_version'"
    if not connection.value(known):
        return None
    found = connection.value("SELECT version_num FROM alembic_version")
    return None if found is None else str(found)

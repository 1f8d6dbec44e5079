"""SQLite: many readers, and one writer that commits changes in groups.

The writer puts all changes that are queued into one transaction, each in a savepoint: a thousand
submissions cost a few disk syncs, and a change that fails does not affect the others.

The driver runs statements directly: building and compiling them for every call would take longer
than running them.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from windlass.model.errors import WindlassError
from windlass.server.db.base import Connection, DatabaseUnavailable, Row
from windlass.server.db.migrate import MIGRATIONS, upgrade
from windlass.version import __version__
from windlass.worker.common.free_space import is_full

T = TypeVar("T")

_LARGEST_GROUP = 500
_log = logging.getLogger("windlass")
_LITTLE = 1 << 16  # bytes
_PATIENCE = 10  # seconds to wait for other processes that have the file locked


class SqliteConnection:
    """One connection to a file."""

    def __init__(self, path: Path) -> None:
        # The driver begins no transactions by itself. Threads take turns with a connection.
        self._raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._raw.row_factory = sqlite3.Row
        self.run(f"PRAGMA busy_timeout = {1000 * _PATIENCE}")
        self._use_wal()
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA foreign_keys = ON")

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        return self._raw.execute(statement, parameters or {}).rowcount

    def run_many(self, statement: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        self._raw.executemany(statement, parameters)

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        return self._raw.execute(statement, parameters or {}).fetchall()

    def row(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        row: Row | None = self._raw.execute(statement, parameters or {}).fetchone()
        return row

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        row = self.row(statement, parameters)
        return None if row is None else row[0]

    def iterate(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[Row]:
        yield from self._raw.execute(statement, parameters or {})

    def text_columns(self) -> dict[str, list[str]]:
        return {
            table: [
                column["name"]
                for column in self.rows(f"PRAGMA table_info({table})")
                if column["type"] in ("TEXT", "BLOB")
            ]
            for table in self.tables()
        }

    def tables(self) -> list[str]:
        rows = self.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
        return [row["name"] for row in rows]

    @contextmanager
    def schema_change(self) -> Iterator[None]:
        # A table that is rebuilt is dropped in between. So rows are checked once, at the end.
        self.run("PRAGMA foreign_keys = OFF")  # which has no effect inside a transaction
        try:
            with self.transaction():
                yield
                broken = self.row("PRAGMA foreign_key_check")
                if broken is not None:
                    raise sqlite3.IntegrityError(
                        f"a row of {broken['table']} refers to a missing row of {broken['parent']}"
                    )
        finally:
            self.run("PRAGMA foreign_keys = ON")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit all changes of a block, or none of them."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:  # a partial change is never stored, whatever the cause
            if self._raw.in_transaction:  # SQLite rolls back by itself after some errors
                self.run("ROLLBACK")
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Store all changes of a block inside a transaction, or none of them."""
        self.run("SAVEPOINT change")
        try:
            yield
        except BaseException:  # as in `transaction`
            if self._raw.in_transaction:
                self.run("ROLLBACK TO change")
                self.run("RELEASE change")
            raise
        self.run("RELEASE change")

    def close(self) -> None:
        self._raw.close()

    def _use_wal(self) -> None:
        # If another process does the same to a new file, SQLite fails at once and does not wait.
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.run("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _cause(error) != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


class SqliteDatabase:
    """A database in a file, which is created or upgraded when it is opened."""

    def __init__(self, path: Path, migrations: Path = MIGRATIONS) -> None:
        path.touch(mode=0o600)
        self._path = path
        self._idle: queue.SimpleQueue[SqliteConnection] = queue.SimpleQueue()
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="windlass-read")
        self._connection = _open(path, migrations)  # for the writer
        self._writer = threading.Thread(target=self._write_all, name="windlass-write", daemon=True)
        self._writer.start()

    def submit(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> Future[T]:
        future: Future[T] = Future()
        # A queued change is made, even if its caller stops waiting.
        future.set_running_or_notify_cancel()
        self._writes.put(_Write(change, future, then))
        return future

    def write(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        return self.submit(change, then).result()

    async def awrite(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[T] = loop.create_future()

        def resolve(done: Future[T]) -> None:
            loop.call_soon_threadsafe(_copy, done, waiting)

        self.submit(change, then).add_done_callback(resolve)
        return await waiting

    def read(self, query: Callable[[Connection], T]) -> T:
        try:
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = SqliteConnection(self._path)
            try:
                return query(connection)
            finally:
                self._idle.put(connection)
        except sqlite3.OperationalError as error:
            raise _unavailable(error, self._path) from error

    async def aread(self, query: Callable[[Connection], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.read, query)

    def close(self) -> None:
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
        while len(group) < _LARGEST_GROUP and group[-1] is not None:
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
        except Exception as error:  # noqa: BLE001 -- raised to every waiting caller
            shown = error
            if isinstance(error, sqlite3.OperationalError):
                shown = _unavailable(error, self._path)
                shown.__cause__ = error
            for write in group:
                write.fail(shown)
        else:
            for write in group:
                write.settle()


class _Write:
    """One change and the future of its caller, which is resolved after the commit."""

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

    def run(self, connection: SqliteConnection) -> None:
        try:
            with connection.savepoint():
                self._value = self._change(connection)
        except sqlite3.OperationalError:
            raise  # a full disk or a lost database affects the whole group
        except Exception as error:  # noqa: BLE001 -- raised to the caller by settle
            self._error = error

    def settle(self) -> None:
        if self._error is not None:
            self._future.set_exception(self._error)
            return
        try:
            if self._then is not None:
                self._then(self._value)
        except Exception:  # noqa: BLE001 -- the change is durable, and the writer must live on
            _log.exception("a callback after a change of the database failed")
        self._future.set_result(self._value)

    def fail(self, error: Exception) -> None:
        self._future.set_exception(self._error or error)


def _copy(done: Future[T], waiting: asyncio.Future[T]) -> None:
    if waiting.cancelled():
        return
    error = done.exception()
    if error is None:
        waiting.set_result(done.result())
    else:
        waiting.set_exception(error)


def _open(path: Path, migrations: Path) -> SqliteConnection:
    try:
        connection = SqliteConnection(path)
        upgrade(connection, path, migrations)
    except WindlassError:
        raise
    except Exception as error:
        raise _opening_error(error, path) from error
    return connection


def _opening_error(error: Exception, path: Path) -> Exception:
    if isinstance(error, sqlite3.OperationalError) and _cause(error) is not None:
        return _unavailable(error, path)
    if type(error) is sqlite3.DatabaseError:  # its subclasses concern a statement, not the file
        return WindlassError(
            f"{path} cannot be read: {error}.",
            hint="Restore it from a copy, or move it away to start with an empty database.",
        )
    return WindlassError(
        f"{path} cannot be upgraded to Windlass {__version__}: {error}.",
        hint="The file was not changed. Use the version that wrote it, or choose another home: "
        "set WINDLASS_HOME.",
    )


_CAUSES = {
    "disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "readonly database": errno.EROFS,
    "locked": errno.EBUSY,
    "unable to open database file": errno.EIO,
}


def _cause(error: sqlite3.OperationalError) -> int | None:
    """Return the error number of the cause, or None if the statement itself is wrong."""
    return next((number for text, number in _CAUSES.items() if text in str(error)), None)


def _unavailable(error: sqlite3.OperationalError, path: Path) -> DatabaseUnavailable:
    number = _cause(error) or errno.EIO
    # SQLite does not say that a full disk is the cause if it cannot even begin.
    if number == errno.EIO and is_full(str(path.parent), _LITTLE):
        number = errno.ENOSPC
    return DatabaseUnavailable(number, str(error))

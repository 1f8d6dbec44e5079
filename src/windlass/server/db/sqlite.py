"""The SQLite database: many readers, and one writer that commits changes in groups.

The writer puts all queued changes into one transaction, so a thousand submissions need only a few
disk syncs. Each change has its own savepoint, so a failed change does not affect the others.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from windlass.model.errors import WindlassError
from windlass.server.db.base import Connection
from windlass.server.db.errors import DatabaseUnavailable
from windlass.server.db.migrate import MIGRATIONS, upgrade
from windlass.server.db.sqlite_connection import SqliteConnection, is_damaged
from windlass.version import __version__
from windlass.worker.common.file_system import MOUNTINFO, file_system_type, is_local

T = TypeVar("T")

ONE_CONNECTION = "the database uses one connection and a rollback journal, which is slower"
_LARGEST_GROUP = 500
_log = logging.getLogger("windlass")


class SqliteDatabase:
    """A database in a file, which is created or upgraded when the database is opened.

    On a file system that several machines may share, such as NFS, the writer's connection is the
    only connection, and reads wait for changes. Several connections would need a write-ahead log
    (WAL), which uses shared memory. Machines do not share memory, so a WAL would damage the file.
    """

    def __init__(
        self, path: Path, migrations: Path = MIGRATIONS, mountinfo: str = MOUNTINFO
    ) -> None:
        path.touch(mode=0o600)
        self._path = path
        kind = file_system_type(path.parent, mountinfo)
        self._is_exclusive = not is_local(kind)
        if self._is_exclusive:
            _log.warning("%s is on a file system of type %s: %s", path, kind, ONE_CONNECTION)
        self._turn = threading.RLock()  # serializes uses of the only connection
        self._idle: queue.SimpleQueue[SqliteConnection] = queue.SimpleQueue()
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="windlass-read")
        self._connection = _open(path, migrations, is_exclusive=self._is_exclusive)
        self._writer = threading.Thread(target=self._write_all, name="windlass-write", daemon=True)
        self._writer.start()

    def submit(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> Future[T]:
        future: Future[T] = Future()
        # Mark the future as running, so that a caller that stops waiting cannot cancel the change.
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
        if self._is_exclusive:
            with self._turn:
                return query(self._connection)
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = SqliteConnection(self._path)
        try:
            return query(connection)
        finally:
            self._idle.put(connection)

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
            with self._turn, self._connection.transaction():
                for write in group:
                    write.run(self._connection)
        except Exception as error:  # noqa: BLE001 -- every waiting caller gets the error
            for write in group:
                write.fail(error)
        else:
            for write in group:
                write.settle()


class _Write:
    """A queued change and its caller's future, which is resolved after the commit."""

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
        except DatabaseUnavailable:
            raise  # a full disk or a lost database affects all changes in the group
        except Exception as error:
            if not connection.is_in_transaction:
                raise  # SQLite has also undone the group's earlier changes
            self._error = error

    def settle(self) -> None:
        if self._error is not None:
            self._future.set_exception(self._error)
            return
        try:
            if self._then is not None:
                self._then(self._value)
        except Exception:  # noqa: BLE001 -- the change is durable, and the writer must go on
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


def _open(path: Path, migrations: Path, *, is_exclusive: bool) -> SqliteConnection:
    try:
        connection = SqliteConnection(path, is_exclusive=is_exclusive)
        upgrade(connection, path, migrations)
    except WindlassError:
        raise
    except Exception as error:
        raise _opening_error(error, path) from error
    return connection


def _opening_error(error: Exception, path: Path) -> Exception:
    if isinstance(error, DatabaseUnavailable):
        if not is_damaged(error):
            return error
        return WindlassError(
            f"{path} cannot be read: {error}.",
            hint="Restore it from a copy, or move it away to start with an empty database.",
        )
    return WindlassError(
        f"{path} cannot be upgraded to Windlass {__version__}: {error}.",
        hint="The file was not changed. Use the version that wrote it, or choose another home: "
        "set WINDLASS_HOME.",
    )

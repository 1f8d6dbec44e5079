"""The database: many readers, one writer that commits in groups.

Everything that waits to be written when the writer comes round goes into one
transaction, each piece in a savepoint of its own: a thousand submissions cost a
handful of disk syncs, and one that fails takes no other with it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from windlass.server.migrations import HEAD

T = TypeVar("T")

_GROUP = 500


class Database:
    """A SQL database that is at the newest schema.

    `write` and `read` take a function of a connection; both can be called from any
    thread, `awrite` and `aread` from the event loop.
    """

    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, pool_size=8, max_overflow=8)
        if self._engine.dialect.name == "sqlite":
            sa.event.listen(self._engine, "connect", _prepare_sqlite)
            sa.event.listen(self._engine, "begin", _begin_sqlite)
        self._writes: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="windlass-read")
        _upgrade(self._engine)
        self._writer = threading.Thread(target=self._write_all, name="windlass-write", daemon=True)
        self._writer.start()

    @classmethod
    def sqlite(cls, path: Path) -> Database:
        """The embedded database in that file."""
        path.touch(mode=0o600)
        return cls(sa.URL.create("sqlite", database=str(path)).render_as_string())

    def submit(self, change: Callable[[sa.Connection], T]) -> Future[T]:
        """Make a change; the future is done once it is durable."""
        future: Future[T] = Future()
        # What was asked for is done, whether or not the one who asked still waits.
        future.set_running_or_notify_cancel()
        self._writes.put(_Write(change, future))
        return future

    def write(self, change: Callable[[sa.Connection], T]) -> T:
        """Make a change and wait until it is durable."""
        return self.submit(change).result()

    async def awrite(self, change: Callable[[sa.Connection], T]) -> T:
        """`write` for the event loop."""
        return await asyncio.wrap_future(self.submit(change))

    def read(self, query: Callable[[sa.Connection], T]) -> T:
        """Look something up."""
        with self._engine.connect() as connection:
            return query(connection)

    async def aread(self, query: Callable[[sa.Connection], T]) -> T:
        """`read` for the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self.read, query)

    def close(self) -> None:
        """Finish what is being written, and let go."""
        self._writes.put(None)
        self._writer.join()
        self._readers.shutdown()
        self._engine.dispose()

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
            with self._engine.begin() as connection:
                for write in group:
                    write.run(connection)
        except Exception as error:  # noqa: BLE001 -- each waiting caller is told
            for write in group:
                write.refuse(error)
        else:
            for write in group:
                write.settle()


class _Write:
    """One change with whoever waits for it; it settles only after the commit."""

    def __init__(self, change: Callable[[sa.Connection], Any], future: Future[Any]) -> None:
        self._change = change
        self._future = future
        self._value: Any = None
        self._error: Exception | None = None

    def run(self, connection: sa.Connection) -> None:
        try:
            with connection.begin_nested():
                self._value = self._change(connection)
        except sa.exc.OperationalError:
            raise  # a full disk or a lost database concerns the whole group
        except Exception as error:  # noqa: BLE001 -- handed to the caller by settle
            self._error = error

    def settle(self) -> None:
        if self._error is None:
            self._future.set_result(self._value)
        else:
            self._future.set_exception(self._error)

    def refuse(self, error: Exception) -> None:
        self._future.set_exception(self._error or error)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves, so that savepoints work
    cursor = connection.cursor()
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "busy_timeout = 10000",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _upgrade(engine: sa.Engine) -> None:
    """Bring the schema to `HEAD`; Alembic is only loaded when there is something to do."""
    if _revision(engine) == HEAD:
        return
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _revision(engine: sa.Engine) -> str | None:
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return str(found) if found is not None else None

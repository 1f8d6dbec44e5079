"""A connection to SQLite. It converts the driver's errors to those in `server/db/errors.py`.

Statements are passed to the driver as text. An SQL toolkit that builds and compiles a statement for
every call would take longer than the statement itself.
"""

from __future__ import annotations

import errno
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from windlass.server.db.base import Row
from windlass.server.db.errors import (
    ConstraintViolated,
    DatabaseError,
    DatabaseUnavailable,
    DuplicateKey,
)
from windlass.worker.common.free_space import is_full

_LITTLE = 1 << 16  # bytes; a disk with less free space counts as full
_PATIENCE = 10  # seconds to wait while another process locks the file


class SqliteConnection:
    """A connection to a database file."""

    def __init__(self, path: Path, *, is_exclusive: bool = False) -> None:
        """Open a database file. If `is_exclusive` is true, no other connection can use the file.

        Connections that share a file use a write-ahead log (WAL), which needs shared memory. An
        exclusive connection uses a rollback journal, which needs only files and a lock.
        """
        self._path = path
        try:
            # `isolation_level=None` prevents the driver from starting transactions. Callers ensure
            # that only one thread at a time uses the connection.
            self._raw = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _translated(error, path) from error
        self._raw.row_factory = sqlite3.Row
        self.run(f"PRAGMA busy_timeout = {1000 * _PATIENCE}")
        if is_exclusive:
            # Set the mode before the first access, so that SQLite reads an earlier server's WAL
            # without shared memory. The lock is kept until the connection is closed.
            self.run("PRAGMA locking_mode = EXCLUSIVE")
        self._set_journal_mode("TRUNCATE" if is_exclusive else "WAL")
        self.run("PRAGMA synchronous = FULL")
        self.run("PRAGMA foreign_keys = ON")

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        try:
            return self._raw.execute(statement, parameters or {}).rowcount
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error

    def run_many(self, statement: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        try:
            self._raw.executemany(statement, parameters)
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        try:
            return self._raw.execute(statement, parameters or {}).fetchall()
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error

    def row(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        try:
            row: Row | None = self._raw.execute(statement, parameters or {}).fetchone()
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error
        return row

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        row = self.row(statement, parameters)
        return None if row is None else row[0]

    def iterate(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[Row]:
        try:
            yield from self._raw.execute(statement, parameters or {})
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error

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

    @property
    def is_in_transaction(self) -> bool:
        return self._raw.in_transaction

    @contextmanager
    def schema_change(self) -> Iterator[None]:
        # A migration that rebuilds a table drops the old table first, which would violate foreign
        # keys. Foreign keys are therefore checked only once, at the end.
        self.run("PRAGMA foreign_keys = OFF")  # has no effect inside a transaction
        try:
            with self.transaction():
                yield
                broken = self.row("PRAGMA foreign_key_check")
                if broken is not None:
                    raise ConstraintViolated(
                        f"a row of {broken['table']} refers to a missing row of {broken['parent']}"
                    )
        finally:
            self.run("PRAGMA foreign_keys = ON")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as a transaction. An exception undoes all changes in the block."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
            self.run("COMMIT")
        except BaseException:  # a partial change is never stored, whatever the exception
            if self._raw.in_transaction:  # SQLite rolls back by itself after some errors
                self.run("ROLLBACK")
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Run the block inside a transaction.

        An exception undoes only the changes in this block.
        """
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

    def _set_journal_mode(self, mode: str) -> None:
        # If another process sets a new file's mode at the same time, SQLite fails at once instead
        # of waiting.
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.run(f"PRAGMA journal_mode = {mode}")
            except DatabaseUnavailable as error:
                if error.errno != errno.EBUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


_STATEMENT_ERROR = 1  # SQLITE_ERROR, for example for an unknown column
_CAUSES = {
    "disk is full": errno.ENOSPC,
    "disk I/O error": errno.EIO,
    "readonly database": errno.EROFS,
    "locked": errno.EBUSY,
    "unable to open database file": errno.EIO,
}


def _translated(error: sqlite3.Error, path: Path) -> DatabaseError:
    """Convert a driver error to one of the errors in `server/db/errors.py`."""
    text = str(error)
    if isinstance(error, sqlite3.IntegrityError):
        return (DuplicateKey if text.startswith("UNIQUE") else ConstraintViolated)(text)
    number = next((number for part, number in _CAUSES.items() if part in text), None)
    if number is None and not _concerns_file(error):
        return DatabaseError(text)
    number = number or errno.EIO
    # On a full disk, SQLite may fail before it writes and then reports a different cause.
    if number == errno.EIO and is_full(str(path.parent), _LITTLE):
        number = errno.ENOSPC
    return DatabaseUnavailable(number, text)


def _concerns_file(error: sqlite3.Error) -> bool:
    """Return whether an error with an unknown message concerns the file rather than a statement."""
    if isinstance(error, sqlite3.OperationalError):
        code = getattr(error, "sqlite_errorcode", _STATEMENT_ERROR)  # exists since Python 3.11
        return bool(code != _STATEMENT_ERROR)
    return type(error) is sqlite3.DatabaseError  # subclasses of DatabaseError concern a statement


def is_damaged(error: DatabaseUnavailable) -> bool:
    """Return whether an error means that the database file is damaged and not just inaccessible."""
    return type(error.__cause__) is sqlite3.DatabaseError

"""The database protocol that the rest of the server uses.

`server/db/sqlite.py` implements the protocol. Statements are SQL text with named parameters
(`:name`). A failed statement raises an error from `server/db/errors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Row(Protocol):
    """One row of a query's result. Columns can be read by name or by position."""

    def __getitem__(self, key: str | int, /) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def keys(self) -> list[str]: ...


class Connection(Protocol):
    """A connection to the database, used by one thread at a time."""

    def run(self, statement: str, parameters: Mapping[str, Any] | None = None) -> int:
        """Run a statement and return the number of rows that it changed."""

    def run_many(self, statement: str, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Run a statement once for each set of parameters."""

    def rows(self, statement: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Run a query and return all rows of its result."""

    def row(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Row | None:
        """Run a query and return its first row, or None if there are no rows."""

    def value(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Any:
        """Run a query and return the first value of its first row, or None if there are no rows."""

    def iterate(self, statement: str, parameters: Mapping[str, Any] | None = None) -> Iterator[Row]:
        """Iterate over a query's rows. Only a few rows are in memory at a time."""

    def text_columns(self) -> dict[str, list[str]]:
        """Return the columns that hold text or bytes, by table name."""

    def tables(self) -> list[str]:
        """Return the names of all tables."""

    def schema_change(self) -> AbstractContextManager[None]:
        """Run the block as a transaction that can change the schema and excludes other programs."""


class Database(Protocol):
    """A database whose schema is up to date.

    `write` and `read` call a function with a connection. They can be called from any thread.
    `awrite` and `aread` do the same for the event loop. All four raise `DatabaseUnavailable` if the
    database cannot be used.
    """

    def submit(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> Future[T]:
        """Queue a function that changes the database.

        The returned future is done once the change is durable. Right after the commit, `then` is
        called with the result of `change`. If several changes are queued, the calls of `then` have
        the same order as the changes.
        """

    def write(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Call a function that changes the database. Return its result once the change is durable.

        Right after the commit, `then` is called with this result.
        """

    async def awrite(
        self, change: Callable[[Connection], T], then: Callable[[T], None] | None = None
    ) -> T:
        """Call a function that changes the database. Return its result once the change is durable.

        Right after the commit, `then` is called with this result.
        """

    def read(self, query: Callable[[Connection], T]) -> T:
        """Call a function that reads the database, and return its result."""

    async def aread(self, query: Callable[[Connection], T]) -> T:
        """Call a function that reads the database, and return its result."""

    def close(self) -> None:
        """Finish all queued changes and close all connections."""

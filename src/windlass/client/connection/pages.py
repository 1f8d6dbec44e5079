"""Lists of any length, fetched page by page in constant memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from windlass.model.errors import InvalidArgument, WindlassError, shown

if TYPE_CHECKING:
    from windlass.client.connection.transport import Transport

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
U = TypeVar("U")

_PAGE = 100
_SHOWN = 20  # items in an interactive session or a notebook


class Page(Protocol[R_co]):
    """One page of a list, with the cursor for the next page."""

    @property
    def items(self) -> tuple[R_co, ...]: ...

    @property
    def next(self) -> str | None: ...


def check_limit(limit: Any) -> None:
    """Raise an error if the limit is neither None nor a whole number."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise InvalidArgument(f"limit={shown(limit)}: write a whole number, or None for no limit.")


class Listing(Iterator[T], Generic[T]):
    """An iterator over a list on the server. It fetches pages on demand.

    ```python
    for trial in wl.list_trials():
        print(trial.id)
    ```

    `list(...)` fetches all items. In asynchronous code, `async for` fetches pages in a thread. A
    listing can be iterated only once. Interactive sessions and notebooks show its next items as a
    table, which does not consume them.
    """

    def __init__(
        self,
        ask: Callable[[str | None, int], Page[Any]],
        limit: int | None,
        make: Callable[[Any], T],
    ) -> None:
        """Create a listing from a function that fetches pages.

        `ask(cursor, size)` returns a page of at most `size` records, starting at `cursor`. `make`
        converts each record to an item.
        """
        check_limit(limit)
        self._ask = ask
        self._make = make
        self._left = limit
        self._cursor: str | None = None
        self._is_over = False
        self._items: Iterator[T] = iter(())
        self._is_begun = False

    def map(self, make: Callable[[T], U]) -> Listing[U]:
        """Return a listing that converts each item of this listing with `make`."""
        before = self._make
        return Listing(self._ask, self._left, lambda record: make(before(record)))

    def __iter__(self) -> Listing[T]:
        return self

    def __next__(self) -> T:
        self._is_begun = True
        for item in self._items:
            return item
        while (size := self._next_size()) is not None:
            self._turn_to(self._ask(self._cursor, size))
            for item in self._items:
                return item
        raise StopIteration

    def __aiter__(self) -> Listing[T]:
        return self

    async def __anext__(self) -> T:
        from windlass.client.connection.async_wait import in_thread

        self._is_begun = True
        for item in self._items:
            return item
        while (size := self._next_size()) is not None:
            ask = partial(self._ask, self._cursor, size)
            # The page is stored by this task, not by the thread, so that cancellation loses no
            # items.
            self._turn_to(await in_thread(ask, _nothing, "windlass-list"))
            for item in self._items:
                return item
        raise StopAsyncIteration

    def peek(self, count: int) -> tuple[list[T], bool]:
        """Return up to `count` of the next items, and whether there are more.

        Later iteration yields these items as well.
        """
        items: list[T] = []
        while len(items) <= count:
            items += islice(self._items, count + 1 - len(items))
            if len(items) <= count:
                if (size := self._next_size()) is None:
                    break
                self._turn_to(self._ask(self._cursor, size))
        self._items = chain(items, self._items)
        return items[:count], len(items) > count

    def __repr__(self) -> str:
        """Show the next items, but send requests only in an interactive session."""
        if not hasattr(sys, "ps1"):
            return "<Listing: an iterator that fetches items on demand. list(...) fetches all.>"
        from windlass.display.listing import listing_text

        try:
            items, has_more = self.peek(_SHOWN)
        except WindlassError as error:
            return f"<Listing that could not be fetched: {error.message}>"
        return listing_text(items, time.time(), has_more=has_more, is_begun=self._is_begun)

    def _repr_html_(self) -> str | None:
        from windlass.display.html.listing import listing_page

        try:
            items, has_more = self.peek(_SHOWN)
        except WindlassError:
            return None  # notebooks show the text above, which contains the error
        return listing_page(items, time.time(), has_more=has_more, is_begun=self._is_begun)

    def _next_size(self) -> int | None:
        """Return the number of items to request for the next page, or None at the end."""
        if self._is_over or (self._left is not None and self._left <= 0):
            return None
        return _PAGE if self._left is None else min(self._left, _PAGE)

    def _turn_to(self, page: Page[Any]) -> None:
        self._items = map(self._make, page.items)
        if self._left is not None:
            self._left -= len(page.items)
        self._cursor = page.next
        self._is_over = page.next is None


def in_memory_listing(records: Sequence[T]) -> Listing[T]:
    """Return a listing of records that are already in memory."""
    return Listing(lambda _cursor, _size: _All(tuple(records)), None, _itself)


class _All(NamedTuple):
    items: tuple[Any, ...]
    next: str | None = None


def walk(
    transport: Transport,
    path: str,
    page: type[Page[T]],
    query: Mapping[str, Any],
    limit: int | None = None,
) -> Listing[T]:
    """Return a lazy listing of the records at a URL path, filtered by a query."""
    sort = query.get("sort", "id")
    if not isinstance(sort, str):
        raise InvalidArgument(
            f"sort_by={shown(sort)}: write one name as a string.",
            hint="For example sort_by='id', or sort_by='-id' for descending order.",
        )

    def ask(cursor: str | None, size: int) -> Page[T]:
        page_query = {**query, "cursor": cursor, "limit": size}
        fetched: Page[T] = transport.ask("GET", path, page, query=page_query)
        warn(getattr(fetched, "hint", ""))
        return fetched

    return Listing(ask, limit, _itself)


def warn(hint: str) -> None:
    """Print a response's hint, if any, as a Python warning.

    For example, the server adds a hint if no trial has reported a metric with the given name.
    """
    if hint:
        import warnings

        warnings.warn(hint, stacklevel=4)


def _itself(record: T) -> T:
    return record


def _nothing() -> None:
    pass

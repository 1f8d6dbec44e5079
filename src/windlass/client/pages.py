"""Lists of any length, walked a page at a time in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from windlass.client.transport import Transport

R_co = TypeVar("R_co", covariant=True)

_PAGE = 100


class Page(Protocol[R_co]):
    """Some records, and where the next ones begin."""

    @property
    def items(self) -> tuple[R_co, ...]: ...

    @property
    def next(self) -> str | None: ...


def flag(wanted: bool | None) -> str | None:
    """Yes, no, or no matter, as a query says it.

    >>> flag(True), flag(None)
    ('true', None)
    """
    return None if wanted is None else str(bool(wanted)).lower()


def walk(
    transport: Transport,
    path: str,
    page: type[Page[R_co]],
    query: Mapping[str, Any],
    limit: int | None = None,
) -> Iterator[R_co]:
    """Records that match, lazily: each page is asked for when it is needed."""
    left, cursor = limit, None
    while left is None or left > 0:
        size = _PAGE if left is None else min(left, _PAGE)
        asked = {**query, "cursor": cursor, "limit": size}
        found = transport.ask("GET", path, page, query=asked)
        yield from found.items
        left = None if left is None else left - len(found.items)
        cursor = found.next
        if cursor is None:
            return

"""Keyset pages: a cursor is the place in the order, never a count of rows."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from windlass.model.errors import InvalidArgument

PAGE_LIMIT = 500


class Order:
    """How a list is sorted: by one column, ties broken by id, in one direction."""

    def __init__(self, sort: str, columns: Mapping[str, sa.ColumnElement[Any]]) -> None:
        name = sort.removeprefix("-")
        if name not in columns:
            raise InvalidArgument(
                f"Cannot sort by {name!r}.", hint=f"Sort by one of: {', '.join(sorted(columns))}."
            )
        self._column = columns[name]
        self._id = columns["id"]
        self._descending = sort.startswith("-")

    def apply(self, query: sa.Select[Any], cursor: str | None, limit: int) -> sa.Select[Any]:
        """The query for one page, with one row more to see whether there is a next."""
        keys = [self._column] if self._column is self._id else [self._column, self._id]
        if cursor is not None:
            query = query.where(self._after(keys, _decode(cursor, len(keys))))
        ordered = [key.desc() if self._descending else key.asc() for key in keys]
        return (
            query.add_columns(*[key.label(f"key_{i}") for i, key in enumerate(keys)])
            .order_by(*ordered)
            .limit(limit + 1)
        )

    def _after(
        self, keys: list[sa.ColumnElement[Any]], values: list[Any]
    ) -> sa.ColumnElement[bool]:
        def beyond(key: sa.ColumnElement[Any], value: object) -> sa.ColumnElement[bool]:
            return key < value if self._descending else key > value

        if len(keys) == 1:
            return beyond(keys[0], values[0])
        return sa.or_(
            beyond(keys[0], values[0]), sa.and_(keys[0] == values[0], beyond(keys[1], values[1]))
        )


def cut(rows: Sequence[sa.Row[Any]], limit: int) -> tuple[Sequence[sa.Row[Any]], str | None]:
    """The rows of a page, and the cursor of the next one if there is more."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    keys = [value for name, value in page[-1]._mapping.items() if str(name).startswith("key_")]
    return page, base64.urlsafe_b64encode(msgspec.json.encode(keys)).decode().rstrip("=")


def _decode(cursor: str, length: int) -> list[Any]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        values = msgspec.json.decode(
            base64.urlsafe_b64decode(padded.encode("ascii")), type=list[int | float | str]
        )
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        values = []
    if len(values) != length or any(isinstance(v, int) and abs(v) >= 2**63 for v in values):
        raise InvalidArgument(
            "The cursor is not one this list gave out.", hint="Start again without a cursor."
        )
    return list(values)

"""Lists of rows: filter conditions, sort orders, and pages with cursors.

A cursor contains the position of a page's last row in the sort order.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.thread_safe_types import learned
from windlass.server.db.base import Row
from windlass.server.db.dialect import json_elements

T = TypeVar("T")


class Conditions:
    """Conditions that select a list's rows. A value of None adds no condition.

    >>> conditions = Conditions()
    >>> conditions.equal("name", None)
    >>> conditions.equal("project", "vision")
    >>> conditions.one_of("state", ["FAILED", "STOPPED"])
    >>> conditions.text
    ' WHERE project = :p0 AND state IN (:p1, :p2)'
    >>> conditions.parameters
    {'p0': 'vision', 'p1': 'FAILED', 'p2': 'STOPPED'}
    """

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self._parts: list[str] = []

    def copy(self) -> Conditions:
        """Return an independent copy of these query conditions."""
        other = Conditions()
        other.parameters, other._parts = dict(self.parameters), list(self._parts)
        return other

    @property
    def text(self) -> str:
        return " WHERE " + " AND ".join(self._parts) if self._parts else ""

    def equal(self, column: str, value: object) -> None:
        if value is not None:
            self.require(f"{column} = {self.bind(value)}")

    def one_of(self, column: str, values: Sequence[object]) -> None:
        if values:
            self.require(f"{column} IN ({', '.join(map(self.bind, values))})")

    def all_in(self, column: str, values: Sequence[object]) -> None:
        """Require that a column's JSON list contains all of these values."""
        for value in values:
            elements = json_elements(column)
            self.require(f"EXISTS (SELECT 1 FROM {elements} WHERE value = {self.bind(value)})")

    def branch(self) -> Conditions:
        """Return empty conditions that share this object's query parameters, for a subquery."""
        other = Conditions()
        other.parameters = self.parameters
        return other

    def require(self, part: str) -> None:
        self._parts.append(part)

    def bind(self, value: object) -> str:
        """Add a query parameter that has this value and return the parameter's name."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"


class Key(NamedTuple):
    """A sort key: an SQL expression whose value is a number or a text, but never null or NaN.

    A fixed key stays ascending even if the list is sorted in descending order. For example, a fixed
    key that says whether a value is missing puts rows without a value last in both directions.
    """

    expression: str
    is_fixed: bool = False
    is_text: bool = False


Columns = Mapping[str, "str | Sequence[Key]"]
"""A list's sort keys, by column name. For a number, the SQL expression is enough."""

Position = list[int | float | str]
"""The values of a row's sort keys, which determine the row's position in a sorted list."""


def text_key(expression: str) -> tuple[Key]:
    """Return the sort key for a text column."""
    return (Key(expression, is_text=True),)


def nulls_last(expression: str) -> tuple[Key, ...]:
    """Return the sort keys for a number that may be missing.

    A NaN counts as missing, because SQLite stores NaN as NULL.
    """
    is_missing = Key(f"CASE WHEN ({expression}) IS NULL THEN 1 ELSE 0 END", is_fixed=True)
    return is_missing, Key(f"coalesce({expression}, 0.0)")


def direction_hint(sort: str) -> str:
    """Return a hint if a sort order ends with an SQL keyword such as `desc`, or else "".

    >>> direction_hint("metrics.loss desc"), direction_hint("loss")
    ("Write '-metrics.loss'; a leading - means descending order. ", '')
    """
    name, _, how = sort.strip().rpartition(" ")
    if not name.strip() or how.lower() not in _DIRECTIONS:
        return ""
    sign = "-" if how.lower().startswith("desc") else ""
    return f"Write {sign + name.strip().lstrip('-')!r}; a leading - means descending order. "


_DIRECTIONS = ("asc", "desc", "ascending", "descending")


class Order:
    """A list's sort order: by one column, ascending or descending, and then by id."""

    def __init__(self, sort: str, columns: Columns) -> None:
        name = sort.removeprefix("-")
        if name not in columns:
            raise InvalidArgument(
                f"Cannot sort by {name!r}.",
                hint=f"{direction_hint(sort)}Sort by one of: {', '.join(sorted(columns))}.",
            )
        keys = [
            key
            for column in (columns[name], columns["id"])
            for key in ([Key(column)] if isinstance(column, str) else column)
        ]
        self._keys = list(dict.fromkeys(keys))
        self.is_descending = sort.startswith("-")

    @property
    def columns(self) -> str:
        """The sort keys as SQL columns, to select in addition to the query's own columns."""
        return ", ".join(
            f"{key.expression} AS key_{number}" for number, key in enumerate(self._keys)
        )

    def position(self, cursor: str) -> Position:
        """Return the position stored in a cursor.

        Raise InvalidArgument for a cursor from a list with a different order.
        """
        return _decode(cursor, [key.is_text for key in self._keys])

    def start_after(self, cursor: str | None, conditions: Conditions) -> None:
        """Limit a list to the rows that come after a cursor's position in the sort order."""
        if cursor is None:
            return
        values = map(conditions.bind, self.position(cursor))
        beyond = ""
        for key, value in reversed(list(zip(self._keys, values, strict=True))):
            sign = "<" if self._is_descending(key) else ">"
            further = f"{key.expression} {sign} {value}"
            tied = f"({key.expression} = {value} AND {beyond})"
            beyond = f"({further} OR {tied})" if beyond else further
        conditions.require(beyond)

    def tail(self, limit: int) -> str:
        """Return the ORDER BY and LIMIT clauses.

        The limit is one row more than a page. If the extra row exists, there is a next page.
        """
        keys = ", ".join(
            f"{key.expression} {'DESC' if self._is_descending(key) else 'ASC'}"
            for key in self._keys
        )
        return f" ORDER BY {keys} LIMIT {limit + 1}"

    def order_by(self, table: str) -> str:
        """Return the ORDER BY clause for a subquery named `table` that contains the sort keys."""
        keys = ", ".join(
            f"{table}.key_{number} {'DESC' if self._is_descending(key) else 'ASC'}"
            for number, key in enumerate(self._keys)
        )
        return f" ORDER BY {keys}"

    def _is_descending(self, key: Key) -> bool:
        return self.is_descending and not key.is_fixed


def split_page(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], str | None]:
    """Return a page's rows and, if there is a next page, a cursor for it.

    If there is a next page, `rows` contains one row more than `limit`.
    """
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    last = page[-1]
    keys = [last[name] for name in last.keys() if name.startswith("key_")]  # noqa: SIM118 -- of a row
    return page, encode_cursor(keys)


def encode_cursor(keys: Sequence[Any]) -> str:
    """Encode the values of sort keys as a cursor."""
    # JSON is unsuitable, because it has no infinities and some decoders read 1.0 as an integer.
    return cursor_text(msgspec.msgpack.encode(keys))


def decode_numbers(cursor: str, length: int) -> Position:
    """Return the numbers in a cursor.

    Raise InvalidArgument if the cursor does not contain `length` numbers.
    """
    return _decode(cursor, [False] * length)


def _decode(cursor: str, are_texts: Sequence[bool]) -> Position:
    try:
        values = msgspec.msgpack.decode(cursor_bytes(cursor), type=learned(Position))
    except (ValueError, msgspec.MsgspecError):
        raise invalid_cursor() from None
    if len(values) != len(are_texts) or not all(map(_fits, values, are_texts)):
        raise invalid_cursor()
    return list(values)


def _fits(value: float | str, is_text: bool) -> bool:
    """Return whether a value has the type of its sort key and can be stored.

    A value of a different type is refused, because databases disagree on how numbers and texts
    compare. NaN is refused, because it has no order.
    """
    if isinstance(value, str) or is_text:
        return isinstance(value, str) and is_text
    return value == value and (isinstance(value, float) or abs(value) < 2**63)


def read_cursor(cursor: str, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode a cursor from a list whose cursors have their own JSON format."""
    try:
        return decoder.decode(cursor_bytes(cursor))
    except (ValueError, msgspec.MsgspecError):
        raise invalid_cursor() from None


def cursor_text(position: bytes) -> str:
    """Encode a position (as bytes) as the text of a cursor.

    >>> cursor_text(b"main/0/a.txt")
    'bWFpbi8wL2EudHh0'
    """
    return base64.urlsafe_b64encode(position).decode().rstrip("=")


def cursor_bytes(cursor: str) -> bytes:
    """Return the position in a cursor. This is the inverse of `cursor_text`.

    Raise ValueError if the text is not a cursor.
    """
    padded = cursor + "=" * (-len(cursor) % 4)
    return base64.urlsafe_b64decode(padded.encode("ascii"))


def invalid_cursor() -> InvalidArgument:
    """Return the error for a cursor that does not belong to this list."""
    return InvalidArgument(
        "The cursor is not from this list.", hint="Start again without a cursor."
    )

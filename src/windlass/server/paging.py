"""Lists: conditions on rows, and keyset pages, whose cursor is the place in the order."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from windlass.model.errors import InvalidArgument
from windlass.model.learning import learned
from windlass.server.database import Row

T = TypeVar("T")

PAGE_LIMIT = 500
Cursor = Annotated[str, msgspec.Meta(max_length=8000)]  # it may hold a name, or a parameter's text


class Conditions:
    """What the rows of a list fulfil; what is none is not asked for.

    >>> asked = Conditions()
    >>> asked.equal("name", None)
    >>> asked.equal("project", "vision")
    >>> asked.one_of("state", ["FAILED", "STOPPED"])
    >>> asked.text
    ' WHERE project = :p0 AND state IN (:p1, :p2)'
    >>> asked.parameters
    {'p0': 'vision', 'p1': 'FAILED', 'p2': 'STOPPED'}
    """

    def __init__(self) -> None:
        self.parameters: dict[str, Any] = {}
        self._parts: list[str] = []

    def copy(self) -> Conditions:
        """The same, to which more can be added."""
        other = Conditions()
        other.parameters, other._parts = dict(self.parameters), list(self._parts)
        return other

    @property
    def text(self) -> str:
        return " WHERE " + " AND ".join(self._parts) if self._parts else ""

    def equal(self, column: str, value: object) -> None:
        if value is not None:
            self.require(f"{column} = {self.name_for(value)}")

    def one_of(self, column: str, values: Sequence[object]) -> None:
        if values:
            self.require(f"{column} IN ({', '.join(map(self.name_for, values))})")

    def all_in(self, column: str, values: Sequence[object]) -> None:
        """Ask that a column, a JSON list, holds all of the values."""
        for value in values:
            listed = f"json_each(CAST({column} AS TEXT))"  # a blob is no JSON to SQLite
            self.require(f"EXISTS (SELECT 1 FROM {listed} WHERE value = {self.name_for(value)})")

    def branch(self) -> Conditions:
        """Conditions of a query inside this one, whose parameters are all in one place."""
        other = Conditions()
        other.parameters = self.parameters
        return other

    def require(self, part: str) -> None:
        self._parts.append(part)

    def name_for(self, value: object) -> str:
        """The name of a new parameter that has this value."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f":{name}"


class Key(NamedTuple):
    """One thing that a list is sorted by; it is never null.

    What is fixed is sorted upwards in both directions, as whether there is a value at all is:
    trials without one come last either way.
    """

    expression: str
    is_fixed: bool = False


def nulls_last(expression: str) -> tuple[Key, ...]:
    """The keys of a number that may be missing."""
    return Key(f"(({expression}) IS NULL)", is_fixed=True), Key(f"coalesce({expression}, 0.0)")


def downwards(sort: str) -> str:
    """How to say what a text with SQL's word for a direction means; nothing of any other.

    >>> downwards("metrics.loss desc"), downwards("loss")
    ("Write '-metrics.loss': a - before it is downwards. ", '')
    """
    name, _, how = sort.strip().rpartition(" ")
    if not name.strip() or how.lower() not in _DIRECTIONS:
        return ""
    sign = "-" if how.lower().startswith("desc") else ""
    return f"Write {sign + name.strip().lstrip('-')!r}: a - before it is downwards. "


_DIRECTIONS = ("asc", "desc", "ascending", "descending")


class Order:
    """How a list is sorted: by one column, ties broken by id, in one direction."""

    def __init__(self, sort: str, columns: Mapping[str, str | Sequence[Key]]) -> None:
        name = sort.removeprefix("-")
        if name not in columns:
            raise InvalidArgument(
                f"Cannot sort by {name!r}.",
                hint=f"{downwards(sort)}Sort by one of: {', '.join(sorted(columns))}.",
            )
        keys = [
            key
            for column in (columns[name], columns["id"])
            for key in ([Key(column)] if isinstance(column, str) else column)
        ]
        self._keys = list(dict.fromkeys(keys))
        self._descending = sort.startswith("-")

    @property
    def columns(self) -> str:
        """To be selected besides the rest: what a cursor is made of."""
        return ", ".join(
            f"{key.expression} AS key_{number}" for number, key in enumerate(self._keys)
        )

    def begin_after(self, cursor: str | None, conditions: Conditions) -> None:
        """Ask for rows beyond a cursor only."""
        if cursor is None:
            return
        values = map(conditions.name_for, decode_cursor(cursor, len(self._keys)))
        beyond = ""
        for key, value in reversed(list(zip(self._keys, values, strict=True))):
            sign = "<" if self._is_downwards(key) else ">"
            further = f"{key.expression} {sign} {value}"
            tied = f"({key.expression} = {value} AND {beyond})"
            beyond = f"({further} OR {tied})" if beyond else further
        conditions.require(beyond)

    def tail(self, limit: int) -> str:
        """The end of the query: one row more than the page, to see whether there is a next."""
        keys = ", ".join(
            f"{key.expression} {'DESC' if self._is_downwards(key) else 'ASC'}" for key in self._keys
        )
        return f" ORDER BY {keys} LIMIT {limit + 1}"

    def again(self, table: str) -> str:
        """The same order of what was selected before, under the name of a table."""
        keys = ", ".join(
            f"{table}.key_{number} {'DESC' if self._is_downwards(key) else 'ASC'}"
            for number, key in enumerate(self._keys)
        )
        return f" ORDER BY {keys}"

    def _is_downwards(self, key: Key) -> bool:
        return self._descending and not key.is_fixed


def cut(rows: Sequence[Row], limit: int) -> tuple[Sequence[Row], str | None]:
    """The rows of a page, and the cursor of the next one if there is more."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    last = page[-1]
    keys = [last[name] for name in last.keys() if name.startswith("key_")]  # noqa: SIM118 -- of a row
    return page, encode_cursor(keys)


def encode_cursor(keys: Sequence[Any]) -> str:
    """A place in an order, as a text that goes into a query."""
    # Not JSON, which has no infinities.
    return cursor_text(msgspec.msgpack.encode(keys))


def decode_cursor(cursor: str, length: int) -> list[Any]:
    """The keys of a place; what is none is refused."""
    try:
        values = msgspec.msgpack.decode(cursor_bytes(cursor), type=learned(list[int | float | str]))
    except (ValueError, msgspec.MsgspecError):
        values = []
    if len(values) != length or any(isinstance(v, int) and abs(v) >= 2**63 for v in values):
        raise not_given_out()
    return list(values)


def read_cursor(cursor: str, decoder: msgspec.json.Decoder[T]) -> T:
    """The place in a list of its own order; what is none is refused."""
    try:
        return decoder.decode(cursor_bytes(cursor))
    except (ValueError, msgspec.MsgspecError):
        raise not_given_out() from None


def cursor_text(place: bytes) -> str:
    """A place in a list, as a text that goes into a query.

    >>> cursor_text(b"main/0/a.txt")
    'bWFpbi8wL2EudHh0'
    """
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def cursor_bytes(cursor: str) -> bytes:
    """The place that a cursor tells; a ValueError of what is none."""
    padded = cursor + "=" * (-len(cursor) % 4)
    return base64.urlsafe_b64decode(padded.encode("ascii"))


def not_given_out() -> InvalidArgument:
    """That a cursor is no place in the list it was given to."""
    return InvalidArgument(
        "The cursor is not one this list gave out.", hint="Start again without a cursor."
    )

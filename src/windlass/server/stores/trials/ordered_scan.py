"""Reads a page of a sorted list from an index that has the same order.

Sorting a million trials would take seconds. Instead, an index yields trials in the right order, in
slices, and a query checks which of them match the filters. If most trials match, one slice fills a
page. If few trials match, the scan would be slow, so it gives up, and a different query first
searches for the matches and then sorts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.server.db.base import Connection, Row
from windlass.server.db.dialect import TRIALS_BY_LIST_INDEX
from windlass.server.db.paging import Conditions, Position

_FIRST_SLICE, _SLICE = 1000, 10_000  # trials per slice
_MOST = 100_000  # the most trials that may be read for one page


class Span(NamedTuple):
    """A part of a sorted list that an index contains in order, by value and id or only by id.

    `keys` are the list's sort keys except the id. Each key is a column of the index or a constant.
    """

    source: str  # the table and the index through which to read it
    trial_id: str
    keys: tuple[str, ...]
    value_at: int | None = None  # the position in `keys` of the key by which the index is sorted
    rank: int | None = None  # the constant value of the first key, by which the spans are sorted
    where: str = "TRUE"  # a condition on the rows in the index
    filter: str = "TRUE"  # a condition on a trial that the index cannot check

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the index by which the span is sorted."""
        value = () if self.value_at is None else (self.keys[self.value_at],)
        return (*value, self.trial_id)

    def start(self, cursor: Position | None) -> Position | None:
        """Return the values of `columns` at a cursor, or None if the cursor is outside the span."""
        if cursor is None or (self.rank is not None and cursor[0] != self.rank):
            return None
        value = [] if self.value_at is None else [cursor[self.value_at]]
        return [*value, cursor[-1]]


def scan(
    connection: Connection,
    spans: Sequence[Span],
    filters: Conditions,
    cursor: Position | None,
    count: int,
    *,
    is_descending: bool,
) -> list[Row] | None:
    """Return the first `count` matching rows after a cursor, or None if matches are too rare."""
    rows: list[Row] = []
    examined = 0
    for span in spans:
        if cursor is not None and span.rank is not None and span.rank < cursor[0]:  # type: ignore[operator]
            continue
        reader = _SpanReader(connection, span, filters, is_descending)
        start = span.start(cursor)
        while True:
            size = _SLICE if examined else _FIRST_SLICE
            end = reader.end_of_slice(start, size)
            rows += reader.read(start, end, count - len(rows))
            if len(rows) == count:
                return rows
            if end is None:
                break
            examined += size
            # At this rate, filling a page would take more than `_MOST` trials.
            if len(rows) * _MOST < count * examined:
                return None
            start = end
    return rows


class _SpanReader:
    """Reads slices of a span."""

    def __init__(
        self, connection: Connection, span: Span, filters: Conditions, is_descending: bool
    ) -> None:
        self._connection = connection
        self._span = span
        self._filters = filters
        self._after, self._up_to = ("<", ">=") if is_descending else (">", "<=")
        direction = "DESC" if is_descending else "ASC"
        self._order = ", ".join(f"{column} {direction}" for column in span.columns)

    def end_of_slice(self, start: Position | None, size: int) -> Position | None:
        """Return the position of the last row in a slice of `size` rows of the span.

        Return None if the span has too few rows after `start`.
        """
        conditions = Conditions()
        conditions.parameters.update(self._filters.parameters)
        self._limit(conditions, start, None)
        row = self._connection.row(
            f"SELECT {', '.join(self._span.columns)} FROM {self._span.source}{conditions.text}"
            f" ORDER BY {self._order} LIMIT 1 OFFSET {size - 1}",
            conditions.parameters,
        )
        return None if row is None else list(row)

    def read(self, start: Position | None, end: Position | None, count: int) -> list[Row]:
        """Return the first `count` rows in a slice of the span that match the list's filters."""
        conditions = self._filters.copy()
        self._limit(conditions, start, end)
        conditions.require(f"trials.id = {self._span.trial_id}")
        conditions.require(self._span.filter)
        keys = [*self._span.keys, "trials.id"]
        columns = ", ".join(f"{key} AS key_{number}" for number, key in enumerate(keys))
        return self._connection.rows(
            f"SELECT trials.id AS trial_id, {columns} FROM {self._span.source}"
            f" CROSS JOIN {TRIALS_BY_LIST_INDEX}{conditions.text}"
            f" ORDER BY {self._order} LIMIT {count}",
            conditions.parameters,
        )

    def _limit(self, conditions: Conditions, start: Position | None, end: Position | None) -> None:
        """Add the condition that rows are in the slice after position `start` and up to `end`."""
        conditions.require(self._span.where)
        columns = ", ".join(self._span.columns)
        for operator, position in ((self._after, start), (self._up_to, end)):
            if position is not None:
                values = ", ".join(map(conditions.bind, position))
                conditions.require(f"({columns}) {operator} ({values})")

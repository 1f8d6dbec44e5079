"""Keyset pages return every row once and in order, also with concurrent changes."""

from __future__ import annotations

import base64
import sqlite3
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from windlass.model.errors import InvalidArgument
from windlass.server.db.paging import Columns, Conditions, Order, nulls_last, split_page, text_key

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])

SORTS: Columns = {
    "id": "id",
    "name": text_key("name"),
    "created": "created",
    "loss": nulls_last("loss"),
}

Row = tuple[str, float, float | None]
rows = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "é", "", "Z", "_%"]),
        st.sampled_from([0.0, 0.1, 1e18]),
        st.sampled_from([None, float("-inf"), -1.0, 0.0, 0.5, float("inf")]),
    ),
    max_size=25,
)
sorts = st.sampled_from([f"{sign}{name}" for sign in ("", "-") for name in SORTS])


class Table:
    """A table of rows, read in pages."""

    def __init__(self, filled: list[Row]) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._connection.row_factory = sqlite3.Row
        self._connection.execute(
            "CREATE TABLE lines (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, created FLOAT,"
            " loss FLOAT)"
        )
        self.add(filled)

    def add(self, new: list[Row]) -> None:
        self._connection.executemany(
            "INSERT INTO lines (name, created, loss) VALUES (?, ?, ?)", new
        )

    def page(self, sort: str, cursor: str | None, limit: int) -> tuple[list[Any], str | None]:
        conditions, order = Conditions(), Order(sort, SORTS)
        order.start_after(cursor, conditions)
        query = f"SELECT *, {order.columns} FROM lines{conditions.text}{order.tail(limit)}"
        page, following = split_page(
            self._connection.execute(query, conditions.parameters).fetchall(), limit
        )
        return [tuple(row)[:4] for row in page], following

    def ordered(self, sort: str) -> list[Any]:
        """All rows as a completely sorted list."""
        position = {"id": 0, "name": 1, "created": 2, "loss": 3}[sort.removeprefix("-")]
        all_rows = [tuple(row) for row in self._connection.execute("SELECT * FROM lines")]
        there = [row for row in all_rows if row[position] is not None]
        missing = [row for row in all_rows if row[position] is None]  # last in both directions
        is_downwards = sort.startswith("-")
        return [
            *sorted(there, key=lambda row: (row[position], row[0]), reverse=is_downwards),
            *sorted(missing, key=lambda row: row[0], reverse=is_downwards),
        ]


@unhurried
@given(rows, sorts, st.integers(1, 10))
def test_pages_together_are_the_whole_list(filled: list[Row], sort: str, limit: int) -> None:
    table = Table(filled)
    seen: list[Any] = []
    cursor: str | None = None
    while True:
        page, cursor = table.page(sort, cursor, limit)
        assert len(page) == limit or cursor is None
        seen += page
        if cursor is None:
            break
    assert seen == table.ordered(sort)


@unhurried
@given(rows, st.lists(rows, max_size=6), sorts, st.integers(1, 5))
def test_rows_added_meanwhile_neither_repeat_nor_hide_old_rows(
    filled: list[Row], additions: list[list[Row]], sort: str, limit: int
) -> None:
    table = Table(filled)
    old = table.ordered(sort)
    seen: list[Any] = []
    cursor: str | None = None
    while True:
        page, cursor = table.page(sort, cursor, limit)
        seen += page
        if cursor is None:
            break
        if additions:
            table.add(additions.pop())
    assert len(seen) == len({row[0] for row in seen})
    assert [row for row in seen if row in old] == old


def encode(values: object) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(values)).decode().rstrip("=")


@pytest.mark.parametrize(
    "cursor",
    ["", "!", "é", "AAAA", encode([]), encode([1, 2, 3]), encode({"id": 1}), encode([None, 1]),
     encode([[1], 1]), encode([2**63, 1]), encode([1, 2**64 - 1]), encode([1, "a", 2]),
     "W" * 10_000],
)  # fmt: skip
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    table = Table([("a", 1.0, None)])
    with pytest.raises(InvalidArgument, match="cursor"):
        table.page("name", cursor, 5)


@unhurried
@given(st.text(max_size=40))
def test_a_cursor_of_any_text_raises_no_unexpected_error(cursor: str) -> None:
    table = Table([("a", 1.0, None)])
    for sort in ("id", "name"):
        try:
            table.page(sort, cursor, 5)
        except InvalidArgument as error:
            assert "cursor" in str(error)


@pytest.mark.parametrize("sort", ["", "-", "--id", "nothing", "name;", "id "])
def test_an_unknown_order_is_refused_with_the_known_ones(sort: str) -> None:
    with pytest.raises(InvalidArgument, match="created, id, loss, name"):
        Order(sort, SORTS)

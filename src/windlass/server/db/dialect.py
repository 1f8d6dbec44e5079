"""SQL expressions of SQLite that PostgreSQL writes otherwise."""

from __future__ import annotations

TRIALS_BY_LIST_INDEX = "trials INDEXED BY trials_listed"
"""The table of trials, read through the index that has all columns of lists.

SQLite would choose the table itself, which is a hundred times as large.
"""


def by_index(table: str, alias: str, index: str) -> str:
    """Return a table that is read in the order of one of its indexes."""
    return f"{table} AS {alias} INDEXED BY {index}"


def json_elements(column: str) -> str:
    """Return a table with one row, `value`, for each element of a JSON list in a column."""
    return f"json_each(CAST({column} AS TEXT))"  # SQLite does not read JSON in a blob


def contains(column: str, part: str) -> str:
    """Return the condition that a text contains another one, with the same case."""
    return f"instr({column}, {part}) > 0"

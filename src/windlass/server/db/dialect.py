"""SQL expressions for SQLite that would be different in PostgreSQL."""

from __future__ import annotations

TRIALS_BY_LIST_INDEX = "trials INDEXED BY trials_listed"
"""The table of trials, read through the index that has all columns of lists.

SQLite would choose the table itself, which is a hundred times as large.
"""

UNINDEXED_TRIAL_ID = "+trials.id"
"""The id of a trial, in an expression that no index serves.

SQLite then scans the trials and checks each one against a subquery.
"""


def by_index(table: str, alias: str, index: str) -> str:
    """Return SQL for a table that is read in the order of one of its indexes."""
    return f"{table} AS {alias} INDEXED BY {index}"


def json_elements(column: str) -> str:
    """Return SQL for a table with one row, `value`, for each element of a column's JSON list."""
    # The cast is necessary because SQLite does not parse JSON in a blob.
    return f"json_each(CAST({column} AS TEXT))"


def contains(column: str, part: str) -> str:
    """Return the SQL condition that one text contains another. The comparison is case-sensitive."""
    return f"instr({column}, {part}) > 0"

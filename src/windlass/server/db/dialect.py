"""SQL expressions for SQLite that would differ in PostgreSQL."""

from __future__ import annotations

TRIALS_BY_LIST_INDEX = "trials INDEXED BY trials_listed"
"""The trials table, read through the index that contains all columns that lists need.

By default, SQLite would read the table itself, which is a hundred times as large.
"""

UNINDEXED_TRIAL_ID = "+trials.id"
"""A trial's id, in an expression for which SQLite cannot use an index.

It makes SQLite scan the trials and check each of them against a subquery.
"""


def by_index(table: str, alias: str, index: str) -> str:
    """Return SQL that reads a table in the order of one of its indexes."""
    return f"{table} AS {alias} INDEXED BY {index}"


def json_elements(column: str) -> str:
    """Return SQL for a table that has one row, with the column `value`, per JSON list element."""
    # The cast is necessary because SQLite does not parse JSON in a blob.
    return f"json_each(CAST({column} AS TEXT))"


def contains(column: str, part: str) -> str:
    """Return the SQL condition that a column's text contains `part`, compared case-sensitively."""
    return f"instr({column}, {part}) > 0"

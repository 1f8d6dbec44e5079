"""What upgrades that were cut off left in the databases of earlier versions: it is taken back.

They had no transaction around them before the first row that they changed. Whatever stands here
may be there, in part, though the revision that is noted is the one before it; it holds nothing
yet. This list is complete: later revisions come by an upgrade that is one transaction.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

import sqlalchemy as sa
from alembic.migration import MigrationContext

_log = logging.getLogger("windlass")


class _Begun(NamedTuple):
    """What a revision makes before it changes a row."""

    indexes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of `table`
    table: str = ""
    tables: tuple[str, ...] = ()  # each after those that refer to it


_BEGUN_AFTER = {
    "": _Begun(tables=("events", "attempts", "trials", "experiments")),
    "0001": _Begun(table="trials", columns=("cause",)),
    "0002": _Begun(
        table="experiments",
        columns=(
            *("uid", "description", "notes"),
            *("labels", "config", "links", "artifacts", "searches"),
        ),
    ),
    "0003": _Begun(table="trials", columns=("kind", "progress")),
    "0005": _Begun(
        # The indexes only where no trial has parameters.
        indexes=("trials_listed", "trials_by_outcome", "trials_by_labels", "summaries_by_name"),
        tables=("parameters",),
    ),
    "0006": _Begun(tables=("checkpoint_uses", "checkpoints")),
    "0007": _Begun(
        table="experiments",
        columns=("project_id", "priority", "archived"),
        tables=("projects", "workspaces"),
    ),
    "0009": _Begun(table="attempts", columns=("pod",)),
}


def take_back(connection: sa.Connection) -> None:
    """Make a database that is between two revisions what it was at the first of them."""
    revision = MigrationContext.configure(connection).get_current_revision() or ""
    begun = _BEGUN_AFTER.get(revision, _Begun())
    there = set(connection.scalars(sa.text("SELECT name FROM sqlite_master")))
    columns = sa.text("SELECT name FROM pragma_table_info(:table)")
    has_columns = set(connection.scalars(columns, {"table": begun.table}))
    statements = [
        *(f"DROP INDEX {name}" for name in begun.indexes if name in there),
        *(
            f"ALTER TABLE {begun.table} DROP COLUMN {name}"
            for name in begun.columns
            if name in has_columns
        ),
        *(
            f"DROP TABLE {name}"
            for name in begun.tables
            if name in there and _is_empty(connection, name)  # else it is not of a torn upgrade
        ),
    ]
    for statement in statements:
        _log.warning("an upgrade after revision %s was cut off: %s", revision or "none", statement)
        connection.exec_driver_sql(statement)


def _is_empty(connection: sa.Connection, table: str) -> bool:
    return connection.exec_driver_sql(f"SELECT 1 FROM {table} LIMIT 1").first() is None

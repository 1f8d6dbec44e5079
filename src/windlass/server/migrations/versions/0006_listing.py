"""Trials found by their parameters and metrics."""

from __future__ import annotations

import msgspec
import sqlalchemy as sa
from alembic import op

from windlass.server.parameters import rows_of

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_LISTED = ["id", "kind", "state", "name", "user", "experiment_id", "created", "started", "ended"]
_PIECE = 1000


def upgrade() -> None:
    op.create_table(
        "parameters",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("number", sa.Float),
        sa.Column("text", sa.Text),
        sqlite_with_rowid=False,
    )
    _fill()
    op.create_index("parameters_by_trial", "parameters", ["trial_id"])
    op.create_index("trials_listed", "trials", _LISTED)
    op.create_index("trials_by_outcome", "trials", ["experiment_id", "state", "auxiliary", "kind"])
    op.create_index(
        "trials_by_labels", "trials", ["labels"], sqlite_where=sa.text("labels IS NOT NULL")
    )
    op.create_index(
        "summaries_by_name",
        "summaries",
        ["name", "trial_id", "last", "min", "max", "mean", "count"],
    )


def _fill() -> None:
    """Note the parameters of the trials that there are."""
    connection = op.get_bind()
    ask = sa.text("SELECT id, params FROM trials WHERE id > :after ORDER BY id LIMIT :piece")
    put = sa.text("INSERT INTO parameters VALUES (:name, :trial_id, :number, :text)")
    after = 0
    while found := connection.execute(ask, {"after": after, "piece": _PIECE}).all():
        after = found[-1].id
        rows = [row for each in found for row in rows_of(each.id, msgspec.json.decode(each.params))]
        if rows:
            connection.execute(put, rows)

"""Experiments that are created, described and searched; trials that repeat and belong to others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("uid", "description", "notes"):
        op.add_column("experiments", sa.Column(name, sa.Text, nullable=False, server_default=""))
    for name in ("labels", "config", "links", "artifacts", "searches"):
        op.add_column("experiments", sa.Column(name, sa.LargeBinary))
    op.execute("UPDATE experiments SET uid = 'experiment-' || id")
    op.create_index("experiments_by_uid", "experiments", ["uid"])
    op.add_column(
        "trials", sa.Column("auxiliary", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column(
        "trials", sa.Column("is_generated", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column("trials", sa.Column("parent_id", sa.Integer))
    op.add_column("trials", sa.Column("origin_id", sa.Integer))
    op.add_column("trials", sa.Column("asked_to_stop", sa.Text, nullable=False, server_default=""))
    op.add_column("trials", sa.Column("labels", sa.LargeBinary))
    op.add_column("trials", sa.Column("recipe", sa.LargeBinary))
    op.create_index("trials_by_parent", "trials", ["parent_id"])
    op.create_index("trials_by_origin", "trials", ["origin_id"])
    op.create_table(
        "summaries",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("finite", sa.Integer, nullable=False),
        sa.Column("total", sa.Float, nullable=False),
        sa.Column("min", sa.Float),
        sa.Column("max", sa.Float),
        sa.Column("last", sa.Text),
        sa.Column("step", sa.Integer),
        sa.Column("time", sa.Float, nullable=False),
    )
    op.create_table(
        "readings",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
    )

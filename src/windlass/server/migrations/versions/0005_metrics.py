"""Metrics in columns; summaries that count no step twice.

What trials that go on reported is read again from their files, by the rule that is new. The
summaries of those that have ended stay as they were.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_UNSETTLED = "SELECT id FROM trials WHERE NOT settled"
_KEPT = "trial_id, name, count, finite, total, min, max, step, time"


def upgrade() -> None:
    for table in ("readings", "summaries"):
        op.execute(f"DELETE FROM {table} WHERE trial_id IN ({_UNSETTLED})")
    op.rename_table("summaries", "old_summaries")
    numbers = [sa.Column(name, sa.Float) for name in ("mean", "min", "max", "last")]
    op.create_table(
        "summaries",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("finite", sa.Integer, nullable=False),
        sa.Column("total", sa.Float, nullable=False),
        *numbers,
        sa.Column("step", sa.Integer),
        sa.Column("time", sa.Float, nullable=False),
    )
    # `last` was a text, since it may be no number; 9e999 is how an infinity is written.
    op.execute(
        f"""
        INSERT INTO summaries ({_KEPT}, mean, last)
        SELECT {_KEPT}, CASE WHEN finite > 0 THEN total / finite END,
            CASE last WHEN 'nan' THEN NULL WHEN 'inf' THEN 9e999 WHEN '-inf' THEN -9e999
            ELSE CAST(last AS FLOAT) END
        FROM old_summaries
        """
    )
    op.drop_table("old_summaries")
    op.create_table(
        "tallies",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("first", sa.Integer, nullable=False),
        sa.Column("reach", sa.Integer, nullable=False),
        sa.Column("until", sa.Integer),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("finite", sa.Integer, nullable=False),
        sa.Column("total", sa.Float, nullable=False),
        sa.Column("min", sa.Float),
        sa.Column("max", sa.Float),
        sa.Column("last", sa.Float),
        sa.Column("step", sa.Integer, nullable=False),
        sa.Column("time", sa.Float, nullable=False),
    )

"""Checkpoints, and files that trials leave."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False, unique=True),
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("is_folder", sa.Boolean, nullable=False),
        sa.Column("step", sa.Integer),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("index", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("shards", sa.Integer, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.Column("files", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("metadata", sa.LargeBinary),
        sa.Column("is_deleted", sa.Boolean, nullable=False, server_default=sa.false()),
        sqlite_autoincrement=True,
    )
    op.create_index("checkpoints_by_trial", "checkpoints", ["trial_id", "number"])
    op.create_table(
        "checkpoint_uses",
        sa.Column("checkpoint_id", sa.Integer, sa.ForeignKey("checkpoints.id"), primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("user_id", sa.Integer, primary_key=True),
    )

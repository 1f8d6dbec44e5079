"""Experiments, trials, attempts, events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "experiments",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("experiments_by_name", "experiments", ["project", "name"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False, unique=True),
        sa.Column("experiment_id", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("settled", sa.Boolean, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("started", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("restarts", sa.Integer, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("signal", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("params", sa.LargeBinary, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.LargeBinary, nullable=False),
        sa.Column("provenance", sa.LargeBinary, nullable=False),
        sa.Column("error", sa.LargeBinary),
        sa.Column("result", sa.LargeBinary),
        sqlite_autoincrement=True,
    )
    op.create_index("trials_by_state", "trials", ["state", "id"])
    op.create_index("trials_by_settled", "trials", ["settled", "id"])
    op.create_index("trials_by_experiment", "trials", ["experiment_id", "id"])
    op.create_index("trials_by_created", "trials", ["created", "id"])
    op.create_table(
        "attempts",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True),
        sa.Column("attempt", sa.Integer, primary_key=True),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("exit_code", sa.Integer),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("started", sa.Float),
        sa.Column("ended", sa.Float),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), nullable=False),
        sa.Column("time", sa.Float, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("events_by_trial", "events", ["trial_id", "id"])

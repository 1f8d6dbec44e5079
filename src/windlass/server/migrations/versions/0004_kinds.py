"""Trials of other kinds than jobs, and how far they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("kind", sa.Text, nullable=False, server_default="job"))
    op.add_column("trials", sa.Column("progress", sa.Float))

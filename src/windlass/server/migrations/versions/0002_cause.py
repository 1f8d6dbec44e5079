"""Whose end was the failure of a trial, and the last it wrote."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("trials", sa.Column("cause", sa.LargeBinary))

"""Workspaces, projects, models, templates; experiments and trials with more attributes."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _make_places()
    _move_experiments()
    _make_registry()
    op.create_table(
        "templates",
        _identity(),
        _text("uid"),
        _text("name"),
        sa.Column("created", sa.Float, nullable=False),
        _text("user", default=""),
        _text("description", default=""),
        sa.Column("fields", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "trial_texts",
        sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
        _text("description", default=""),
        _text("notes", default=""),
    )


def _make_places() -> None:
    op.create_table(
        "workspaces",
        _identity(),
        _text("uid"),
        _text("name"),
        sa.Column("created", sa.Float, nullable=False),
        _text("description", default=""),
        _flag("archived"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "projects",
        _identity(),
        _text("uid"),
        sa.Column("workspace_id", sa.Integer, sa.ForeignKey("workspaces.id"), nullable=False),
        _text("name"),
        sa.Column("created", sa.Float, nullable=False),
        _text("description", default=""),
        _flag("archived"),
        sa.UniqueConstraint("workspace_id", "name"),
        sqlite_autoincrement=True,
    )


def _move_experiments() -> None:
    """Put every experiment into the project that its text named."""
    op.execute(  # Alembic makes no references in SQLite
        "ALTER TABLE experiments"
        " ADD COLUMN project_id INTEGER DEFAULT 1 NOT NULL REFERENCES projects (id)"
    )
    op.add_column(
        "experiments",
        sa.Column("priority", sa.Integer, nullable=False, server_default=sa.text("0")),
    )
    op.add_column("experiments", _flag("archived"))
    connection = op.get_bind()
    now = time.time()
    texts = connection.execute(sa.text("SELECT DISTINCT project FROM experiments ORDER BY project"))
    workspaces: dict[str, int] = {}
    projects: dict[tuple[int, str], int] = {}
    for text in ["default", *(row[0] for row in texts)]:
        workspace, name = _place_of(text)
        if workspace not in workspaces:
            row = {"uid": f"workspace-{workspace}", "name": workspace, "created": now}
            workspaces[workspace] = _insert("workspaces", row)
        key = workspaces[workspace], name
        if key not in projects:
            row = {"uid": f"project-{text}", "workspace_id": key[0], "name": name, "created": now}
            projects[key] = _insert("projects", row)
        connection.execute(
            sa.text("UPDATE experiments SET project_id = :id WHERE project = :text"),
            {"id": projects[key], "text": text},
        )
    op.drop_index("experiments_by_name", "experiments")
    op.drop_column("experiments", "project")
    op.create_index("experiments_by_name", "experiments", ["project_id", "name"])
    op.create_index("experiments_by_archived", "experiments", ["archived"])


def _place_of(text: str) -> tuple[str, str]:
    """The workspace and the project of a text that was free: a slash parts the two from now on."""
    before, slash, after = (part.strip() for part in text.partition("/"))
    if slash and before and after:
        return before, after.replace("/", "-")
    return "default", (before + after).replace("/", "-") or "default"


def _insert(table: str, row: dict[str, object]) -> int:
    names = ", ".join(row)
    values = ", ".join(f":{name}" for name in row)
    statement = sa.text(f"INSERT INTO {table} ({names}) VALUES ({values}) RETURNING id")
    return int(op.get_bind().execute(statement, row).scalar_one())


def _make_registry() -> None:
    op.create_table(
        "models",
        _identity(),
        _text("uid"),
        _text("name"),
        sa.Column("project_id", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        _text("user", default=""),
        _text("description", default=""),
        _text("notes", default=""),
        sa.Column("labels", sa.LargeBinary),
        sa.Column("metadata", sa.LargeBinary),
        _flag("archived"),
        # The last number that was given to a version: none is given twice.
        sa.Column("last_version", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    op.create_index("models_by_project", "models", ["project_id"])
    op.create_table(
        "model_versions",
        _identity(),
        sa.Column("model_id", sa.Integer, sa.ForeignKey("models.id"), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("checkpoint_id", sa.Integer, sa.ForeignKey("checkpoints.id"), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        _text("user", default=""),
        _text("name", default=""),
        _text("notes", default=""),
        sa.Column("labels", sa.LargeBinary),
        sa.Column("metadata", sa.LargeBinary),
        sa.UniqueConstraint("model_id", "version"),
        sa.UniqueConstraint("model_id", "checkpoint_id"),
        sqlite_autoincrement=True,
    )
    op.create_index("model_versions_by_checkpoint", "model_versions", ["checkpoint_id"])
    op.create_table(
        "model_aliases",
        sa.Column("model_id", sa.Integer, sa.ForeignKey("models.id"), primary_key=True),
        sa.Column("alias", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
    )


def _identity() -> sa.Column[int]:
    return sa.Column("id", sa.Integer, primary_key=True)


def _text(name: str, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=False, server_default=default)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())

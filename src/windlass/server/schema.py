"""The tables. Migrations make them; this says what they are now."""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

# The first of both is `default`, which there always is.
workspaces = sa.Table(
    "workspaces",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
    sqlite_autoincrement=True,
)

projects = sa.Table(
    "projects",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("workspace_id", sa.Integer, sa.ForeignKey("workspaces.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.UniqueConstraint("workspace_id", "name"),
    sqlite_autoincrement=True,
)

experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("uid", sa.Text, nullable=False, server_default=""),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("notes", sa.Text, nullable=False, server_default=""),
    # JSON that only we write and read.
    sa.Column("labels", sa.LargeBinary),
    sa.Column("config", sa.LargeBinary),
    sa.Column("links", sa.LargeBinary),
    sa.Column("artifacts", sa.LargeBinary),
    sa.Column("searches", sa.LargeBinary),
    sa.Column(
        "project_id", sa.Integer, sa.ForeignKey("projects.id"), nullable=False, server_default="1"
    ),
    # Of what is added to it and says none itself.
    sa.Column("priority", sa.Integer, nullable=False, server_default="0"),
    sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("experiments_by_name", "project_id", "name"),
    sa.Index("experiments_by_archived", "archived"),
    sa.Index("experiments_by_uid", "uid"),
    sqlite_autoincrement=True,
)

trials = sa.Table(
    "trials",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False, unique=True),
    sa.Column("experiment_id", sa.Integer, sa.ForeignKey("experiments.id"), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    # Nothing of it runs any more, and nothing is left to be done.
    sa.Column("settled", sa.Boolean, nullable=False, default=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("started", sa.Float),
    sa.Column("ended", sa.Float),
    sa.Column("restarts", sa.Integer, nullable=False, default=0),
    sa.Column("exit_code", sa.Integer),
    sa.Column("signal", sa.Text, nullable=False, default=""),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("message", sa.Text, nullable=False, default=""),
    sa.Column("priority", sa.Integer, nullable=False, default=0),
    sa.Column("user", sa.Text, nullable=False, default=""),
    # The documents below are JSON that only we write and read.
    sa.Column("params", sa.LargeBinary, nullable=False),
    sa.Column("spec", sa.LargeBinary, nullable=False),
    sa.Column("status", sa.LargeBinary, nullable=False),
    sa.Column("provenance", sa.LargeBinary, nullable=False),
    sa.Column("error", sa.LargeBinary),
    sa.Column("result", sa.LargeBinary),
    sa.Column("cause", sa.LargeBinary),
    sa.Column("auxiliary", sa.Boolean, nullable=False, server_default=sa.false()),
    # Whether it consists of what its generator adds: nothing is started for it.
    sa.Column("is_generated", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("parent_id", sa.Integer),
    sa.Column("origin_id", sa.Integer),
    sa.Column("asked_to_stop", sa.Text, nullable=False, server_default=""),
    sa.Column("labels", sa.LargeBinary),
    sa.Column("recipe", sa.LargeBinary),
    sa.Column("kind", sa.Text, nullable=False, server_default="job"),
    sa.Column("progress", sa.Float),
    sa.Index("trials_by_state", "state", "id"),
    sa.Index("trials_by_settled", "settled", "id"),
    sa.Index("trials_by_experiment", "experiment_id", "id"),
    sa.Index("trials_by_created", "created", "id"),
    sa.Index("trials_by_parent", "parent_id"),
    sa.Index("trials_by_origin", "origin_id"),
    # What lists look at in every trial: a row itself is a hundred times as long.
    sa.Index(
        "trials_listed",
        *("id", "kind", "state", "name", "user", "experiment_id", "created", "started", "ended"),
    ),
    sa.Index("trials_by_outcome", "experiment_id", "state", "auxiliary", "kind"),
    sa.Index("trials_by_labels", "labels", sqlite_where=sa.text("labels IS NOT NULL")),
    sqlite_autoincrement=True,
)

# The parameters of trials, nested ones by their names joined with dots.
parameters = sa.Table(
    "parameters",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("number", sa.Float),  # booleans are both
    sa.Column("text", sa.Text),
    sa.Index("parameters_by_trial", "trial_id"),
    sqlite_with_rowid=False,
)

attempts = sa.Table(
    "attempts",
    metadata,
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("phase", sa.Text, nullable=False),
    sa.Column("exit_code", sa.Integer),
    sa.Column("reason", sa.Text, nullable=False, default=""),
    sa.Column("message", sa.Text, nullable=False, default=""),
    sa.Column("started", sa.Float),
    sa.Column("ended", sa.Float),
    sa.Column("node", sa.Text, nullable=False, default=""),
    sa.Column("address", sa.Text, nullable=False, default=""),
    sa.Column("pod", sa.LargeBinary),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), nullable=False),
    sa.Column("time", sa.Float, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Index("events_by_trial", "trial_id", "id"),
    sqlite_autoincrement=True,
)

# What the values of a metric come to that count, kept up as they are read: one row a metric, with
# numbers to filter and sort by. Infinities are numbers here, NaN is none (`last`).
summaries = sa.Table(
    "summaries",
    metadata,
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("finite", sa.Integer, nullable=False),  # how many of them are numbers to add up
    sa.Column("total", sa.Float, nullable=False),
    sa.Column("mean", sa.Float),
    sa.Column("min", sa.Float),
    sa.Column("max", sa.Float),
    sa.Column("last", sa.Float),
    sa.Column("step", sa.Integer),
    sa.Column("time", sa.Float, nullable=False),
    # All that lists look at.
    sa.Index("summaries_by_name", "name", "trial_id", "last", "min", "max", "mean", "count"),
)

# What of each attempt counts in that: a later attempt of a replica has the say from its first step.
tallies = sa.Table(
    "tallies",
    metadata,
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("first", sa.Integer, nullable=False),  # the least step it reported
    sa.Column("reach", sa.Integer, nullable=False),  # the greatest
    sa.Column("until", sa.Integer),  # the step from which on it no longer counts
    sa.Column("count", sa.Integer, nullable=False),
    sa.Column("finite", sa.Integer, nullable=False),
    sa.Column("total", sa.Float, nullable=False),
    sa.Column("min", sa.Float),
    sa.Column("max", sa.Float),
    sa.Column("last", sa.Float),
    sa.Column("step", sa.Integer, nullable=False),
    sa.Column("time", sa.Float, nullable=False),
)

# How far the metrics of an attempt have been read: each counts once.
readings = sa.Table(
    "readings",
    metadata,
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("role", sa.Text, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("attempt", sa.Integer, primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
)

# What people wrote about trials: few have anything.
trial_texts = sa.Table(
    "trial_texts",
    metadata,
    sa.Column("trial_id", sa.Integer, sa.ForeignKey("trials.id"), primary_key=True),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("notes", sa.Text, nullable=False, server_default=""),
)

models = sa.Table(
    "models",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("project_id", sa.Integer, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("user", sa.Text, nullable=False, server_default=""),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("notes", sa.Text, nullable=False, server_default=""),
    sa.Column("labels", sa.LargeBinary),
    sa.Column("metadata", sa.LargeBinary),
    sa.Column("archived", sa.Boolean, nullable=False, server_default=sa.false()),
    # The last number that was given to a version: none is given twice.
    sa.Column("last_version", sa.Integer, nullable=False, server_default="0"),
    sa.Index("models_by_project", "project_id"),
    sqlite_autoincrement=True,
)

model_versions = sa.Table(
    "model_versions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("model_id", sa.Integer, sa.ForeignKey("models.id"), nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    # What it is of: a checkpoint that a version names is not deleted.
    sa.Column("checkpoint_id", sa.Integer, sa.ForeignKey("checkpoints.id"), nullable=False),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("user", sa.Text, nullable=False, server_default=""),
    sa.Column("name", sa.Text, nullable=False, server_default=""),
    sa.Column("notes", sa.Text, nullable=False, server_default=""),
    sa.Column("labels", sa.LargeBinary),
    sa.Column("metadata", sa.LargeBinary),
    sa.UniqueConstraint("model_id", "version"),
    sa.UniqueConstraint("model_id", "checkpoint_id"),
    sa.Index("model_versions_by_checkpoint", "checkpoint_id"),
    sqlite_autoincrement=True,
)

model_aliases = sa.Table(
    "model_aliases",
    metadata,
    sa.Column("model_id", sa.Integer, sa.ForeignKey("models.id"), primary_key=True),
    sa.Column("alias", sa.Text, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
)

templates = sa.Table(
    "templates",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("created", sa.Float, nullable=False),
    sa.Column("user", sa.Text, nullable=False, server_default=""),
    sa.Column("description", sa.Text, nullable=False, server_default=""),
    sa.Column("fields", sa.LargeBinary, nullable=False),
    sqlite_autoincrement=True,
)

# What trials saved: taken in from their record files, each once.
checkpoints = sa.Table(
    "checkpoints",
    metadata,
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
    sa.Column("manifest", sa.Text, nullable=False),  # a blob, which names the blobs of its files
    sa.Column("files", sa.Integer, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("metadata", sa.LargeBinary),  # JSON
    # It is no longer told of, but its record file may be there.
    sa.Column("is_deleted", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Index("checkpoints_by_trial", "trial_id", "number"),
    sqlite_autoincrement=True,
)

# Who needs a checkpoint: it is not deleted while there is a row.
checkpoint_uses = sa.Table(
    "checkpoint_uses",
    metadata,
    sa.Column("checkpoint_id", sa.Integer, sa.ForeignKey("checkpoints.id"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),  # "trial" that began with it, "model" version
    sa.Column("user_id", sa.Integer, primary_key=True),  # of that trial or version
)

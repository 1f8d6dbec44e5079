"""Queries the database rows of models and their versions, and converts them to records."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from windlass.model.errors import NotFound
from windlass.model.models import LATEST, ModelRecord, ModelVersionRecord
from windlass.server.db.base import Connection, Row
from windlass.server.db.named_rows import as_id, find_row
from windlass.server.db.paging import Conditions
from windlass.server.db.project_names import project_paths

VERSIONS = """
SELECT model_versions.*, models.name AS model, checkpoints.uid AS checkpoint_uid,
    checkpoints.trial_id, checkpoints.step
FROM model_versions JOIN models ON models.id = model_versions.model_id
JOIN checkpoints ON checkpoints.id = model_versions.checkpoint_id
"""


def version_row(connection: Connection, model_id: int, which: str) -> Row:
    """Return a model's version by number or alias, or its latest version."""
    model = find_row(connection, "model", model_id)
    parameters: dict[str, Any] = {"model_id": model["id"]}
    query = f"{VERSIONS} WHERE model_versions.model_id = :model_id"
    if which == LATEST:
        row = connection.row(f"{query} ORDER BY version DESC LIMIT 1", parameters)
    elif which.isascii() and which.isdecimal():
        parameters["version"] = as_id(which)
        row = connection.row(f"{query} AND version = :version", parameters)
    else:
        alias = "SELECT version FROM model_aliases WHERE model_id = :model_id AND alias = :alias"
        parameters["alias"] = which
        row = connection.row(f"{query} AND version = ({alias})", parameters)
    if row is None:
        raise _missing_version(connection, model, which)
    return row


def insert_version(connection: Connection, columns: Mapping[str, Any]) -> int:
    """Insert a model version under the next number, and return the version's id."""
    number = connection.value(
        "UPDATE models SET last_version = last_version + 1 WHERE id = :model_id"
        " RETURNING last_version",
        columns,
    )
    row_id: int = connection.value(
        'INSERT INTO model_versions (model_id, version, checkpoint_id, created, "user", name,'
        " notes, labels, metadata) VALUES (:model_id, :version, :checkpoint_id, :created, :user,"
        " :name, :notes, :labels, :metadata) RETURNING id",
        {**columns, "version": number, "created": time.time()},
    )
    return row_id


def model_records(connection: Connection, rows: Sequence[Row]) -> list[ModelRecord]:
    """Convert rows to model records, including the number of versions and the aliases."""
    projects = project_paths(connection, {row["project_id"] for row in rows})
    conditions = Conditions()
    conditions.one_of("model_id", [row["id"] for row in rows] or [-1])
    held = {
        row["model_id"]: (row["number"], row["latest"])
        for row in connection.rows(
            "SELECT model_id, count(*) AS number, max(version) AS latest"
            f" FROM model_versions{conditions.text} GROUP BY model_id",
            conditions.parameters,
        )
    }
    aliases: dict[int, dict[str, int]] = {}
    for row in connection.rows(
        f"SELECT * FROM model_aliases{conditions.text} ORDER BY alias", conditions.parameters
    ):
        aliases.setdefault(row["model_id"], {})[row["alias"]] = row["version"]
    return [
        ModelRecord(
            id=row["id"],
            name=row["name"],
            project=projects[row["project_id"]],
            created=row["created"],
            user=row["user"],
            description=row["description"],
            notes=row["notes"],
            labels=tuple(_decode(row["labels"], [])),
            metadata=_decode(row["metadata"], {}),
            archived=bool(row["archived"]),
            versions=held.get(row["id"], (0, None))[0],
            latest=held.get(row["id"], (0, None))[1],
            aliases=aliases.get(row["id"], {}),
        )
        for row in rows
    ]


def version_records(connection: Connection, rows: Sequence[Row]) -> list[ModelVersionRecord]:
    """Convert rows to records of model versions, including their aliases."""
    conditions = Conditions()
    conditions.one_of("model_id", sorted({row["model_id"] for row in rows}) or [-1])
    aliases: dict[tuple[int, int], list[str]] = {}
    for alias_row in connection.rows(
        f"SELECT * FROM model_aliases{conditions.text} ORDER BY alias", conditions.parameters
    ):
        aliases.setdefault((alias_row["model_id"], alias_row["version"]), []).append(
            alias_row["alias"]
        )
    return [
        ModelVersionRecord(
            id=row["id"],
            model_id=row["model_id"],
            model=row["model"],
            version=row["version"],
            checkpoint_id=row["checkpoint_id"],
            checkpoint_uid=row["checkpoint_uid"],
            trial_id=row["trial_id"],
            step=row["step"],
            created=row["created"],
            user=row["user"],
            name=row["name"],
            notes=row["notes"],
            labels=tuple(_decode(row["labels"], [])),
            metadata=_decode(row["metadata"], {}),
            aliases=tuple(aliases.get((row["model_id"], row["version"]), ())),
        )
        for row in rows
    ]


def _missing_version(connection: Connection, model: Row, which: str) -> NotFound:
    [record] = model_records(connection, [model])
    if record.latest is None:
        hint = f"It has no versions yet: wl.get_model({record.name!r}).register_version(checkpoint)"
    else:
        aliases = "".join(f", {alias!r} is {number}" for alias, number in record.aliases.items())
        hint = f"The latest is {record.latest}{aliases}. See: windlass model show {record.name}"
    named = f"version {which}" if which.isdecimal() else f"version {which!r}"
    return NotFound(f"The model {record.name!r} has no {named}.", hint=hint)


def _decode(text: bytes | None, otherwise: Any) -> Any:
    return otherwise if text is None else msgspec.json.decode(text)

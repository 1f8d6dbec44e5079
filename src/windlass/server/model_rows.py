"""Models and their versions as rows of the database: found, and made into records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.errors import NotFound
from windlass.model.registry import LATEST, ModelRecord, ModelVersionRecord
from windlass.server.database import Connection, Row
from windlass.server.named import as_id, find_row
from windlass.server.paging import Conditions
from windlass.server.projects import places_of

VERSIONS = """
SELECT model_versions.*, models.name AS model, checkpoints.uid AS checkpoint_uid,
    checkpoints.trial_id, checkpoints.step
FROM model_versions JOIN models ON models.id = model_versions.model_id
JOIN checkpoints ON checkpoints.id = model_versions.checkpoint_id
"""


def version_row(connection: Connection, model_id: int, which: str) -> Row:
    """One version of a model, by number or alias, or the latest."""
    model = find_row(connection, "model", model_id)
    asked: dict[str, Any] = {"model_id": model["id"]}
    query = f"{VERSIONS} WHERE model_versions.model_id = :model_id"
    if which == LATEST:
        row = connection.row(f"{query} ORDER BY version DESC LIMIT 1", asked)
    elif which.isascii() and which.isdecimal():
        asked["version"] = as_id(which)
        row = connection.row(f"{query} AND version = :version", asked)
    else:
        alias = "SELECT version FROM model_aliases WHERE model_id = :model_id AND alias = :alias"
        asked["alias"] = which
        row = connection.row(f"{query} AND version = ({alias})", asked)
    if row is None:
        raise _missing_version(connection, model, which)
    return row


def model_records(connection: Connection, rows: Sequence[Row]) -> list[ModelRecord]:
    """The models that rows are, each with how many versions it has and its aliases."""
    places = places_of(connection, {row["project_id"] for row in rows})
    asked = Conditions()
    asked.one_of("model_id", [row["id"] for row in rows] or [-1])
    held = {
        each["model_id"]: (each["number"], each["latest"])
        for each in connection.rows(
            "SELECT model_id, count(*) AS number, max(version) AS latest"
            f" FROM model_versions{asked.text} GROUP BY model_id",
            asked.parameters,
        )
    }
    aliases: dict[int, dict[str, int]] = {}
    for each in connection.rows(
        f"SELECT * FROM model_aliases{asked.text} ORDER BY alias", asked.parameters
    ):
        aliases.setdefault(each["model_id"], {})[each["alias"]] = each["version"]
    return [
        ModelRecord(
            id=row["id"],
            name=row["name"],
            project=places[row["project_id"]],
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
    """The versions that rows are, each with the aliases that name it."""
    asked = Conditions()
    asked.one_of("model_id", sorted({row["model_id"] for row in rows}) or [-1])
    aliases: dict[tuple[int, int], list[str]] = {}
    for each in connection.rows(
        f"SELECT * FROM model_aliases{asked.text} ORDER BY alias", asked.parameters
    ):
        aliases.setdefault((each["model_id"], each["version"]), []).append(each["alias"])
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

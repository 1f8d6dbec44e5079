"""Models in SQL: versions numbered from 1, aliases that name one of them each.

Every change is one turn of the only writer: two who register at once get two numbers, and an
alias names one version before a change and one after it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model import names
from windlass.model.errors import Conflict, InvalidArgument, NotFound
from windlass.model.names import name_flaw, proper_flaw
from windlass.model.registry import (
    LATEST,
    ChangeModel,
    ChangeVersion,
    CreateModel,
    ModelPage,
    ModelRecord,
    ModelVersionRecord,
    RegisterVersion,
    VersionPage,
    alias_flaw,
)
from windlass.server import checkpoint_rows as checkpoints
from windlass.server.database import Connection, Database, Row
from windlass.server.metadata import changed_labels, kept_labels
from windlass.server.paging import Conditions, Order, cut
from windlass.server.projects import (
    ARCHIVED_PROJECTS,
    as_id,
    in_project,
    missing,
    places_of,
    project_for,
)

USE = "model version"  # what a version is called among those that need a checkpoint
_LARGEST_METADATA = 64 << 10

_MODEL_SORTS = {name: name for name in ("id", "name", "created")}
_VERSIONS = """
SELECT model_versions.*, models.name AS model, checkpoints.uid AS checkpoint_uid,
    checkpoints.trial_id, checkpoints.step
FROM model_versions JOIN models ON models.id = model_versions.model_id
JOIN checkpoints ON checkpoints.id = model_versions.checkpoint_id
"""
_encode = msgspec.json.encode


class ModelStore:
    """Every model there is."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- models -----------------------------------------------------------------------

    async def create(self, request: CreateModel) -> ModelRecord:
        """The model that a key made before, or that it makes now."""
        names.check(proper_flaw(request.name, "model"))
        labels = kept_labels(request.labels)

        def change(connection: Connection) -> ModelRecord:
            found = connection.row("SELECT * FROM models WHERE uid = :key", {"key": request.key})
            if found is None:
                found = connection.row(
                    "SELECT * FROM models WHERE name = :name", {"name": request.name}
                )
                if found is not None and not request.exist_ok:
                    raise _taken(request.name)
            if found is None:
                now = time.time()
                [found] = connection.rows(
                    'INSERT INTO models (uid, name, project_id, created, "user", description,'
                    " labels, metadata) VALUES (:uid, :name, :project_id, :created, :user,"
                    " :description, :labels, :metadata) RETURNING *",
                    {
                        "uid": request.key,
                        "name": request.name,
                        "project_id": project_for(connection, request.project, now),
                        "created": now,
                        "user": request.user,
                        "description": request.description,
                        "labels": _encode(labels),
                        "metadata": _encode(_changed({}, request.metadata, ())),
                    },
                )
            return _models(connection, [found])[0]

        return await self._db.awrite(change)

    async def record(self, which: int | str) -> ModelRecord:
        """One model, by id or by name."""
        return await self._db.aread(lambda each: _models(each, [_model_row(each, which)])[0])

    async def change(self, model_id: int, request: ChangeModel) -> ModelRecord:
        """Give a model other attributes, or have it belong to another project."""

        def change(connection: Connection) -> ModelRecord:
            row = _model_row(connection, model_id)
            [before] = _models(connection, [row])
            given = _plain(request, ("name", "description", "notes", "archived"))
            if given.get("name", before.name) != before.name:
                names.check(proper_flaw(given["name"], "model"))
                query = "SELECT id FROM models WHERE name = :name"
                if connection.value(query, {"name": given["name"]}) is not None:
                    raise _taken(given["name"])
            if not isinstance(request.project, msgspec.UnsetType):
                place = request.project
                if place not in (before.project, row["project_id"]):
                    given["project_id"] = project_for(connection, place, time.time())
            given |= _noted(before, request)
            _update(connection, "models", row["id"], given)
            return _models(connection, [_model_row(connection, row["id"])])[0]

        return await self._db.awrite(change)

    async def delete(self, model_id: int) -> None:
        """Delete a model with its versions; their checkpoints stay, and are free to go."""

        def change(connection: Connection) -> None:
            asked = {"id": as_id(model_id), "kind": USE}
            connection.run(
                "DELETE FROM checkpoint_uses WHERE kind = :kind"
                " AND user_id IN (SELECT id FROM model_versions WHERE model_id = :id)",
                asked,
            )
            for table in ("model_aliases", "model_versions"):
                connection.run(f"DELETE FROM {table} WHERE model_id = :id", {"id": asked["id"]})
            connection.run("DELETE FROM models WHERE id = :id", {"id": asked["id"]})

        await self._db.awrite(change)

    async def page(
        self,
        *,
        project: str | None,
        name: str | None,
        labels: Sequence[str],
        archived: bool | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> ModelPage:
        """Models that match, a page of them."""
        asked, order = Conditions(), Order(sort, _MODEL_SORTS)
        in_project(asked, "project_id", project)
        asked.equal("name", name)
        asked.all_in("labels", labels)
        if archived is not None:
            is_in = f"(archived OR project_id IN ({ARCHIVED_PROJECTS}))"
            asked.require(is_in if archived else f"NOT {is_in}")
        order.begin_after(cursor, asked)
        query = f"SELECT *, {order.columns} FROM models{asked.text}{order.tail(limit)}"

        def run(connection: Connection) -> ModelPage:
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return ModelPage(items=tuple(_models(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- versions ---------------------------------------------------------------------

    async def register(self, model_id: int, request: RegisterVersion) -> ModelVersionRecord:
        """The version that a checkpoint is, or becomes now under the next number."""
        labels = kept_labels(request.labels)
        _check_version_name(request.name)

        def change(connection: Connection) -> ModelVersionRecord:
            row = _model_row(connection, model_id)
            checkpoint = checkpoints.find(connection, request.checkpoint)
            asked = {"model_id": row["id"], "checkpoint_id": checkpoint.id}
            query = f"{_VERSIONS} WHERE model_id = :model_id AND checkpoint_id = :checkpoint_id"
            found = connection.row(query, asked)
            if found is None:
                if row["archived"]:
                    raise _archived(row["name"])
                number = row["last_version"] + 1
                connection.run(
                    "UPDATE models SET last_version = :number WHERE id = :id",
                    {"id": row["id"], "number": number},
                )
                version_id = connection.value(
                    "INSERT INTO model_versions (model_id, version, checkpoint_id, created,"
                    ' "user", name, notes, labels, metadata) VALUES (:model_id, :version,'
                    " :checkpoint_id, :created, :user, :name, :notes, :labels, :metadata)"
                    " RETURNING id",
                    {
                        **asked,
                        "version": number,
                        "created": time.time(),
                        "user": request.user,
                        "name": request.name,
                        "notes": request.notes,
                        "labels": _encode(labels),
                        "metadata": _encode(_changed({}, request.metadata, ())),
                    },
                )
                checkpoints.use(connection, checkpoint.uid, USE, version_id)
                found = connection.row(query, asked)
            assert found is not None  # noqa: S101 -- it was there, or was just made
            return _versions(connection, [found])[0]

        return await self._db.awrite(change)

    async def version(self, model_id: int, which: str) -> ModelVersionRecord:
        """One version, by number or alias, or the latest."""

        def run(connection: Connection) -> ModelVersionRecord:
            return _versions(connection, [_version_row(connection, model_id, which)])[0]

        return await self._db.aread(run)

    async def change_version(
        self, model_id: int, number: int, request: ChangeVersion
    ) -> ModelVersionRecord:
        """Give a version other attributes."""

        def change(connection: Connection) -> ModelVersionRecord:
            row = _version_row(connection, model_id, str(number))
            [before] = _versions(connection, [row])
            given = _plain(request, ("name", "notes"))
            _check_version_name(given.get("name", ""))
            given |= _noted(before, request)
            _update(connection, "model_versions", row["id"], given)
            return _versions(connection, [_version_row(connection, model_id, str(number))])[0]

        return await self._db.awrite(change)

    async def delete_version(self, model_id: int, number: int) -> None:
        """Delete a version that no alias names; its checkpoint stays, and is free to go."""

        def change(connection: Connection) -> None:
            asked = {"model_id": as_id(model_id), "version": as_id(number)}
            of_it = "WHERE model_id = :model_id AND version = :version"
            aliases = connection.rows(f"SELECT alias FROM model_aliases {of_it}", asked)
            if aliases:
                told = ", ".join(repr(row["alias"]) for row in aliases)
                raise Conflict(
                    f"Version {number} is {told}: it is not deleted.",
                    hint="Have that name another version first: model.set_alias(alias, version), "
                    "windlass model alias",
                )
            connection.run(
                "DELETE FROM checkpoint_uses WHERE kind = :kind AND user_id IN"
                f" (SELECT id FROM model_versions {of_it})",
                {**asked, "kind": USE},
            )
            connection.run(f"DELETE FROM model_versions {of_it}", asked)

        await self._db.awrite(change)

    async def version_page(
        self, model_id: int, *, labels: Sequence[str], sort: str, cursor: str | None, limit: int
    ) -> VersionPage:
        """Versions of a model, a page of them."""
        order = Order(sort, {key: f"model_versions.{key}" for key in ("id", "version", "created")})

        def run(connection: Connection) -> VersionPage:
            asked = Conditions()
            asked.equal("model_versions.model_id", _model_row(connection, model_id)["id"])
            asked.all_in("model_versions.labels", labels)
            order.begin_after(cursor, asked)
            query = _VERSIONS.replace("FROM", f", {order.columns} FROM", 1)
            query += f"{asked.text}{order.tail(limit)}"
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return VersionPage(items=tuple(_versions(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- aliases ----------------------------------------------------------------------

    async def set_alias(self, model_id: int, alias: str, number: int) -> ModelRecord:
        """Have an alias name a version, whichever it named before."""
        names.check(alias_flaw(alias), "alias: ")

        def change(connection: Connection) -> ModelRecord:
            row = _model_row(connection, model_id)
            _version_row(connection, row["id"], str(number))
            connection.run(
                "INSERT INTO model_aliases (model_id, alias, version)"
                " VALUES (:model_id, :alias, :version)"
                " ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version",
                {"model_id": row["id"], "alias": alias, "version": number},
            )
            return _models(connection, [row])[0]

        return await self._db.awrite(change)

    async def remove_alias(self, model_id: int, alias: str) -> ModelRecord:
        """Have an alias name nothing; one that does not is no matter."""

        def change(connection: Connection) -> ModelRecord:
            row = _model_row(connection, model_id)
            connection.run(
                "DELETE FROM model_aliases WHERE model_id = :model_id AND alias = :alias",
                {"model_id": row["id"], "alias": alias},
            )
            return _models(connection, [row])[0]

        return await self._db.awrite(change)


# -- rows and records -----------------------------------------------------------------


def _model_row(connection: Connection, which: int | str) -> Row:
    row = None
    if isinstance(which, str):
        row = connection.row("SELECT * FROM models WHERE name = :name", {"name": which})
    if row is None:
        row = connection.row("SELECT * FROM models WHERE id = :id", {"id": as_id(which)})
    if row is None:
        found = connection.rows("SELECT name FROM models ORDER BY id DESC LIMIT 1000")
        raise missing("model", which, [each["name"] for each in found])
    return row


def _version_row(connection: Connection, model_id: int, which: str) -> Row:
    model = _model_row(connection, model_id)
    asked: dict[str, Any] = {"model_id": model["id"]}
    query = f"{_VERSIONS} WHERE model_versions.model_id = :model_id"
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


def _missing_version(connection: Connection, model: Row, which: str) -> NotFound:
    [record] = _models(connection, [model])
    if record.latest is None:
        hint = f"It has no versions yet: wl.get_model({record.name!r}).register_version(checkpoint)"
    else:
        aliases = "".join(f", {alias!r} is {number}" for alias, number in record.aliases.items())
        hint = f"The latest is {record.latest}{aliases}. See: windlass model show {record.name}"
    named = f"version {which}" if which.isdecimal() else f"version {which!r}"
    return NotFound(f"The model {record.name!r} has no {named}.", hint=hint)


def _models(connection: Connection, rows: Sequence[Row]) -> list[ModelRecord]:
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


def _versions(connection: Connection, rows: Sequence[Row]) -> list[ModelVersionRecord]:
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


def _decode(text: bytes | None, otherwise: Any) -> Any:
    return otherwise if text is None else msgspec.json.decode(text)


# -- changes --------------------------------------------------------------------------


def _plain(request: msgspec.Struct, fields: Sequence[str]) -> dict[str, Any]:
    told = {name: getattr(request, name) for name in fields}
    return {k: value for k, value in told.items() if not isinstance(value, msgspec.UnsetType)}


def _noted(
    before: ModelRecord | ModelVersionRecord, request: ChangeModel | ChangeVersion
) -> dict[str, Any]:
    """The labels and metadata that a change comes to, as columns hold them."""
    return {
        "labels": _encode(changed_labels(before.labels, request)),
        "metadata": _encode(
            _changed(before.metadata, request.put_metadata, request.remove_metadata)
        ),
    }


def _changed(metadata: dict[str, Any], put: dict[str, Any], gone: Sequence[str]) -> dict[str, Any]:
    """Metadata, with some put and some removed by name."""
    flaws = [f"metadata: {flaw}" for name in put if (flaw := name_flaw(name))]
    if flaws:
        raise InvalidArgument.of(flaws)
    new = {name: value for name, value in {**metadata, **put}.items() if name not in gone}
    size = len(_encode(new))
    if put and (len(new) > checkpoints.MOST_METADATA or size > _LARGEST_METADATA):
        raise InvalidArgument(
            f"These would be {len(new)} entries of metadata, {size} bytes; there can be"
            f" {checkpoints.MOST_METADATA}, and {_LARGEST_METADATA} bytes.",
            hint="Keep what is large as a file in the checkpoint.",
        )
    return new


def _update(connection: Connection, table: str, row_id: int, given: dict[str, Any]) -> None:
    changes = ", ".join(f"{name} = :{name}" for name in given)
    connection.run(f"UPDATE {table} SET {changes} WHERE id = :id", {**given, "id": row_id})


def _check_version_name(name: str) -> None:
    names.check(name_flaw(name) if name else "", "name: ")


def _taken(name: str) -> Conflict:
    return Conflict(
        f"There is a model {name!r} already.",
        hint=f"Ask for it, wl.get_model({name!r}), or choose another name.",
    )


def _archived(name: str) -> Conflict:
    return Conflict(
        f"The model {name!r} is archived: nothing new is registered.",
        hint=f"Take it out first: windlass model unarchive {name}",
    )

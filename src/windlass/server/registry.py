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
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.names import name_flaw, proper_flaw
from windlass.model.registry import (
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
from windlass.server.database import Connection, Database
from windlass.server.metadata import changed_labels, kept_labels
from windlass.server.model_rows import VERSIONS, model_records, version_records, version_row
from windlass.server.named import as_id, find_row, given_fields, taken, update_row
from windlass.server.paging import Conditions, Order, cut
from windlass.server.projects import ARCHIVED_PROJECTS, project_for
from windlass.server.scopes import project_of

USE = "model version"  # what a version is called among those that need a checkpoint
_LARGEST_METADATA = 64 << 10

_MODEL_SORTS = {name: name for name in ("id", "name", "created")}
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
                    raise taken("model", request.name, is_new=True)
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
            return model_records(connection, [found])[0]

        return await self._db.awrite(change)

    async def record(self, which: int | str) -> ModelRecord:
        """One model, by id or by name."""
        return await self._db.aread(
            lambda each: model_records(each, [find_row(each, "model", which)])[0]
        )

    async def change(self, model_id: int, request: ChangeModel) -> ModelRecord:
        """Give a model other attributes, or have it belong to another project."""

        def change(connection: Connection) -> ModelRecord:
            row = find_row(connection, "model", model_id)
            [before] = model_records(connection, [row])
            given = given_fields(request, ("name", "description", "notes", "archived"))
            if given.get("name", before.name) != before.name:
                names.check(proper_flaw(given["name"], "model"))
                query = "SELECT id FROM models WHERE name = :name"
                if connection.value(query, {"name": given["name"]}) is not None:
                    raise taken("model", given["name"])
            if not isinstance(request.project, msgspec.UnsetType):
                place = request.project
                if place not in (before.project, row["project_id"]):
                    given["project_id"] = project_for(connection, place, time.time())
            given |= _noted(before, request)
            update_row(connection, "model", row["id"], given)
            return model_records(connection, [find_row(connection, "model", row["id"])])[0]

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
        project_id: int | None,
        name: str | None,
        labels: Sequence[str],
        archived: bool | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> ModelPage:
        """Models that match, a page of them."""
        order = Order(sort, _MODEL_SORTS)

        def run(connection: Connection) -> ModelPage:
            asked = Conditions()
            asked.equal("project_id", project_of(connection, project, project_id))
            asked.equal("name", name)
            asked.all_in("labels", labels)
            if archived is not None:
                is_in = f"(archived OR project_id IN ({ARCHIVED_PROJECTS}))"
                asked.require(is_in if archived else f"NOT {is_in}")
            order.begin_after(cursor, asked)
            query = f"SELECT *, {order.columns} FROM models{asked.text}{order.tail(limit)}"
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return ModelPage(items=tuple(model_records(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- versions ---------------------------------------------------------------------

    async def register(self, model_id: int, request: RegisterVersion) -> ModelVersionRecord:
        """The version that a checkpoint is, or becomes now under the next number."""
        labels = kept_labels(request.labels)
        _check_version_name(request.name)

        def change(connection: Connection) -> ModelVersionRecord:
            row = find_row(connection, "model", model_id)
            checkpoint = checkpoints.find(connection, request.checkpoint)
            asked = {"model_id": row["id"], "checkpoint_id": checkpoint.id}
            query = f"{VERSIONS} WHERE model_id = :model_id AND checkpoint_id = :checkpoint_id"
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
            return version_records(connection, [found])[0]

        return await self._db.awrite(change)

    async def version(self, model_id: int, which: str) -> ModelVersionRecord:
        """One version, by number or alias, or the latest."""

        def run(connection: Connection) -> ModelVersionRecord:
            return version_records(connection, [version_row(connection, model_id, which)])[0]

        return await self._db.aread(run)

    async def change_version(
        self, model_id: int, number: int, request: ChangeVersion
    ) -> ModelVersionRecord:
        """Give a version other attributes."""

        def change(connection: Connection) -> ModelVersionRecord:
            row = version_row(connection, model_id, str(number))
            [before] = version_records(connection, [row])
            given = given_fields(request, ("name", "notes"))
            _check_version_name(given.get("name", ""))
            given |= _noted(before, request)
            update_row(connection, "model_version", row["id"], given)
            return version_records(connection, [version_row(connection, model_id, str(number))])[0]

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
            asked.equal("model_versions.model_id", find_row(connection, "model", model_id)["id"])
            asked.all_in("model_versions.labels", labels)
            order.begin_after(cursor, asked)
            query = VERSIONS.replace("FROM", f", {order.columns} FROM", 1)
            query += f"{asked.text}{order.tail(limit)}"
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return VersionPage(items=tuple(version_records(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- aliases ----------------------------------------------------------------------

    async def set_alias(self, model_id: int, alias: str, number: int) -> ModelRecord:
        """Have an alias name a version, whichever it named before."""
        names.check(alias_flaw(alias), "alias: ")

        def change(connection: Connection) -> ModelRecord:
            row = find_row(connection, "model", model_id)
            version_row(connection, row["id"], str(number))
            connection.run(
                "INSERT INTO model_aliases (model_id, alias, version)"
                " VALUES (:model_id, :alias, :version)"
                " ON CONFLICT (model_id, alias) DO UPDATE SET version = excluded.version",
                {"model_id": row["id"], "alias": alias, "version": number},
            )
            return model_records(connection, [row])[0]

        return await self._db.awrite(change)

    async def remove_alias(self, model_id: int, alias: str) -> ModelRecord:
        """Have an alias name nothing; one that does not is no matter."""

        def change(connection: Connection) -> ModelRecord:
            row = find_row(connection, "model", model_id)
            connection.run(
                "DELETE FROM model_aliases WHERE model_id = :model_id AND alias = :alias",
                {"model_id": row["id"], "alias": alias},
            )
            return model_records(connection, [row])[0]

        return await self._db.awrite(change)


# -- changes --------------------------------------------------------------------------


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


def _check_version_name(name: str) -> None:
    names.check(name_flaw(name) if name else "", "name: ")


def _archived(name: str) -> Conflict:
    return Conflict(
        f"The model {name!r} is archived: nothing new is registered.",
        hint=f"Take it out first: windlass model unarchive {name}",
    )

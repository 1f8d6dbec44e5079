"""Models in the database. A model's versions are numbered from 1, and an alias names one version.

A single SQL statement takes the next version number, so two versions that clients register at the
same time get different numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.models import (
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
from windlass.model.text import names
from windlass.model.text.names import name_flaw, proper_flaw
from windlass.server.db.base import Connection, Database
from windlass.server.db.metadata import changed_labels, valid_labels
from windlass.server.db.named_rows import (
    NAMED_SORTS,
    as_id,
    find_row,
    name_conflict,
    set_fields,
    update_row,
)
from windlass.server.db.paging import Conditions, Order, split_page
from windlass.server.db.project_names import ARCHIVED_PROJECTS, get_or_create_project
from windlass.server.db.scopes import resolve_project
from windlass.server.stores.checkpoints import rows as checkpoints
from windlass.server.stores.model_rows import (
    VERSIONS,
    insert_version,
    model_records,
    version_records,
    version_row,
)

USE = "model version"  # the kind of rows in `checkpoint_uses` that belong to a model version
_LARGEST_METADATA = 64 << 10

_encode = msgspec.json.encode


class ModelStore:
    """Creates, changes and lists models, their versions and their aliases."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- models -----------------------------------------------------------------------

    async def create(self, request: CreateModel) -> ModelRecord:
        """Create a model. If the request's key already exists, return the existing model."""
        names.check(proper_flaw(request.name, "model"))
        labels = valid_labels(request.labels)

        def change(connection: Connection) -> ModelRecord:
            row = connection.row("SELECT * FROM models WHERE uid = :key", {"key": request.key})
            if row is None:
                row = connection.row(
                    "SELECT * FROM models WHERE name = :name", {"name": request.name}
                )
                if row is not None and not request.exist_ok:
                    raise name_conflict("model", request.name, is_new=True)
            if row is None:
                now = time.time()
                [row] = connection.rows(
                    'INSERT INTO models (uid, name, project_id, created, "user", description,'
                    " labels, metadata) VALUES (:uid, :name, :project_id, :created, :user,"
                    " :description, :labels, :metadata) RETURNING *",
                    {
                        "uid": request.key,
                        "name": request.name,
                        "project_id": get_or_create_project(connection, request.project, now),
                        "created": now,
                        "user": request.user,
                        "description": request.description,
                        "labels": _encode(labels),
                        "metadata": _encode(_changed({}, request.metadata, ())),
                    },
                )
            return model_records(connection, [row])[0]

        return await self._db.awrite(change)

    async def record(self, which: int | str) -> ModelRecord:
        """Return one model by id or name."""
        return await self._db.aread(
            lambda connection: model_records(connection, [find_row(connection, "model", which)])[0]
        )

    async def change(self, model_id: int, request: ChangeModel) -> ModelRecord:
        """Change a model's attributes, or move the model to another project."""

        def change(connection: Connection) -> ModelRecord:
            row = find_row(connection, "model", model_id)
            [before] = model_records(connection, [row])
            columns = set_fields(request, ("name", "description", "notes", "archived"))
            if columns.get("name", before.name) != before.name:
                names.check(proper_flaw(columns["name"], "model"))
                query = "SELECT id FROM models WHERE name = :name"
                if connection.value(query, {"name": columns["name"]}) is not None:
                    raise name_conflict("model", columns["name"])
            if not isinstance(request.project, msgspec.UnsetType):
                project_name = request.project
                if project_name not in (before.project, row["project_id"]):
                    columns["project_id"] = get_or_create_project(
                        connection, project_name, time.time()
                    )
            columns |= _noted(before, request)
            update_row(connection, "model", row["id"], columns)
            return model_records(connection, [find_row(connection, "model", row["id"])])[0]

        return await self._db.awrite(change)

    async def delete(self, model_id: int) -> None:
        """Delete a model and its versions.

        The versions' checkpoints remain and can be deleted afterwards.
        """

        def change(connection: Connection) -> None:
            parameters = {"id": as_id(model_id), "kind": USE}
            connection.run(
                "DELETE FROM checkpoint_uses WHERE kind = :kind"
                " AND user_id IN (SELECT id FROM model_versions WHERE model_id = :id)",
                parameters,
            )
            for table in ("model_aliases", "model_versions"):
                connection.run(
                    f"DELETE FROM {table} WHERE model_id = :id", {"id": parameters["id"]}
                )
            connection.run("DELETE FROM models WHERE id = :id", {"id": parameters["id"]})

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
        """Return a page of the models that match all filters."""
        order = Order(sort, NAMED_SORTS)

        def run(connection: Connection) -> ModelPage:
            conditions = Conditions()
            conditions.equal("project_id", resolve_project(connection, project, project_id))
            conditions.equal("name", name)
            conditions.all_in("labels", labels)
            if archived is not None:
                is_in = f"(archived OR project_id IN ({ARCHIVED_PROJECTS}))"
                conditions.require(is_in if archived else f"NOT {is_in}")
            order.start_after(cursor, conditions)
            query = f"SELECT *, {order.columns} FROM models{conditions.text}{order.tail(limit)}"
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
            return ModelPage(items=tuple(model_records(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- versions ---------------------------------------------------------------------

    async def register(self, model_id: int, request: RegisterVersion) -> ModelVersionRecord:
        """Register a checkpoint as the next version of a model.

        If the checkpoint is already a version of the model, that version is returned.
        """
        labels = valid_labels(request.labels)
        _check_version_name(request.name)

        def change(connection: Connection) -> ModelVersionRecord:
            row = find_row(connection, "model", model_id)
            checkpoint = checkpoints.find(connection, request.checkpoint)
            parameters = {"model_id": row["id"], "checkpoint_id": checkpoint.id}
            query = f"{VERSIONS} WHERE model_id = :model_id AND checkpoint_id = :checkpoint_id"
            version = connection.row(query, parameters)
            if version is None:
                if row["archived"]:
                    raise _archived(row["name"])
                version_id = insert_version(
                    connection,
                    {
                        **parameters,
                        "user": request.user,
                        "name": request.name,
                        "notes": request.notes,
                        "labels": _encode(labels),
                        "metadata": _encode(_changed({}, request.metadata, ())),
                    },
                )
                checkpoints.use(connection, checkpoint.uid, USE, version_id)
                version = connection.row(query, parameters)
            assert version is not None  # noqa: S101 -- the version existed or was just inserted
            return version_records(connection, [version])[0]

        return await self._db.awrite(change)

    async def version(self, model_id: int, which: str) -> ModelVersionRecord:
        """Return a model version by its number, by an alias, or by the name `latest`."""

        def run(connection: Connection) -> ModelVersionRecord:
            return version_records(connection, [version_row(connection, model_id, which)])[0]

        return await self._db.aread(run)

    async def change_version(
        self, model_id: int, number: int, request: ChangeVersion
    ) -> ModelVersionRecord:
        """Change the attributes of a model version."""

        def change(connection: Connection) -> ModelVersionRecord:
            row = version_row(connection, model_id, str(number))
            [before] = version_records(connection, [row])
            columns = set_fields(request, ("name", "notes"))
            _check_version_name(columns.get("name", ""))
            columns |= _noted(before, request)
            update_row(connection, "model_version", row["id"], columns)
            return version_records(connection, [version_row(connection, model_id, str(number))])[0]

        return await self._db.awrite(change)

    async def delete_version(self, model_id: int, number: int) -> None:
        """Delete a version that has no alias.

        The version's checkpoint remains and can be deleted afterwards.
        """

        def change(connection: Connection) -> None:
            parameters = {"model_id": as_id(model_id), "version": as_id(number)}
            of_it = "WHERE model_id = :model_id AND version = :version"
            aliases = connection.rows(f"SELECT alias FROM model_aliases {of_it}", parameters)
            if aliases:
                quoted = ", ".join(repr(row["alias"]) for row in aliases)
                raise Conflict(
                    f"Version {number} is {quoted}, so it cannot be deleted.",
                    hint="Point the alias at another version first: "
                    "model.set_alias(alias, version), "
                    "windlass model alias",
                )
            connection.run(
                "DELETE FROM checkpoint_uses WHERE kind = :kind AND user_id IN"
                f" (SELECT id FROM model_versions {of_it})",
                {**parameters, "kind": USE},
            )
            connection.run(f"DELETE FROM model_versions {of_it}", parameters)

        await self._db.awrite(change)

    async def version_page(
        self, model_id: int, *, labels: Sequence[str], sort: str, cursor: str | None, limit: int
    ) -> VersionPage:
        """Return a page of a model's versions."""
        order = Order(sort, {key: f"model_versions.{key}" for key in ("id", "version", "created")})

        def run(connection: Connection) -> VersionPage:
            conditions = Conditions()
            conditions.equal(
                "model_versions.model_id", find_row(connection, "model", model_id)["id"]
            )
            conditions.all_in("model_versions.labels", labels)
            order.start_after(cursor, conditions)
            query = VERSIONS.replace("FROM", f", {order.columns} FROM", 1)
            query += f"{conditions.text}{order.tail(limit)}"
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
            return VersionPage(items=tuple(version_records(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- aliases ----------------------------------------------------------------------

    async def set_alias(self, model_id: int, alias: str, number: int) -> ModelRecord:
        """Point an alias at a version instead of at its previous version, if any."""
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
        """Remove a model's alias. Removing a missing alias has no effect."""

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
    """Return the new values of a model's or version's columns for labels and metadata."""
    return {
        "labels": _encode(changed_labels(before.labels, request)),
        "metadata": _encode(
            _changed(before.metadata, request.put_metadata, request.remove_metadata)
        ),
    }


def _changed(metadata: dict[str, Any], put: dict[str, Any], gone: Sequence[str]) -> dict[str, Any]:
    """Return metadata after setting some entries and removing others."""
    flaws = [f"metadata: {flaw}" for name in put if (flaw := name_flaw(name))]
    if flaws:
        raise InvalidArgument.of(flaws)
    new = {name: value for name, value in {**metadata, **put}.items() if name not in gone}
    size = len(_encode(new))
    if put and (len(new) > checkpoints.MOST_METADATA or size > _LARGEST_METADATA):
        raise InvalidArgument(
            f"This would make {len(new)} entries of metadata, {size} bytes; the limits are"
            f" {checkpoints.MOST_METADATA}, and {_LARGEST_METADATA} bytes.",
            hint="Save large values as a file in the checkpoint.",
        )
    return new


def _check_version_name(name: str) -> None:
    names.check(name_flaw(name) if name else "", "name: ")


def _archived(name: str) -> Conflict:
    return Conflict(
        f"The model {name!r} is archived, so no version can be registered.",
        hint=f"Unarchive it first: windlass model unarchive {name}",
    )

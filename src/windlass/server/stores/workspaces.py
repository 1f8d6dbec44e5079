"""Workspaces and projects in the database, which can be deleted only when they are empty."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.model.text import names
from windlass.model.text.names import DEFAULT, join_place, proper_flaw
from windlass.model.workspaces import (
    ChangeProject,
    ChangeWorkspace,
    CreateProject,
    CreateWorkspace,
    ProjectPage,
    ProjectRecord,
    WorkspacePage,
    WorkspaceRecord,
)
from windlass.server.db.base import Connection, Database, Row
from windlass.server.db.named_rows import (
    NAMED_SORTS,
    find_row,
    name_conflict,
    set_fields,
    update_row,
)
from windlass.server.db.paging import Conditions, Order, split_page
from windlass.server.db.project_names import (
    DEFAULT_ID,
    check_not_archived,
    find_project,
    find_workspace,
    insert_project,
)
from windlass.server.db.scopes import project_row, resolve_workspace


class WorkspaceStore:
    """Creates, changes and lists workspaces and projects."""

    def __init__(self, database: Database, on_rename: Callable[[], None] = lambda: None) -> None:
        """Create the store. The writer thread calls `on_rename` when project names change."""
        self._db = database
        self._on_rename = on_rename

    # -- workspaces -------------------------------------------------------------------

    async def create_workspace(self, request: CreateWorkspace) -> WorkspaceRecord:
        """Create a workspace.

        If the request's key already exists, the existing workspace is returned.
        """
        names.check(proper_flaw(request.name, "workspace"))

        def change(connection: Connection) -> WorkspaceRecord:
            query = "SELECT * FROM workspaces WHERE uid = :key"
            row = connection.row(query, {"key": request.key})
            if row is None:
                query = "SELECT * FROM workspaces WHERE name = :name"
                row = connection.row(query, {"name": request.name})
                if row is not None and not request.exist_ok:
                    raise name_conflict("workspace", request.name, is_new=True)
            if row is None:
                [row] = connection.rows(
                    "INSERT INTO workspaces (uid, name, description, created)"
                    " VALUES (:uid, :name, :description, :created) RETURNING *",
                    {
                        "uid": request.key,
                        "name": request.name,
                        "description": request.description,
                        "created": time.time(),
                    },
                )
            return _workspaces(connection, [row])[0]

        return await self._db.awrite(change)

    async def workspace(self, which: int | str) -> WorkspaceRecord:
        """Return one workspace by id or name."""
        return await self._db.aread(lambda connection: _find_workspace(connection, which))

    async def change_workspace(
        self, workspace_id: int, request: ChangeWorkspace
    ) -> WorkspaceRecord:
        """Change a workspace's attributes."""

        def change(connection: Connection) -> WorkspaceRecord:
            before = _find_workspace(connection, workspace_id)
            columns = set_fields(request, ("name", "description", "archived"))
            if before.id == DEFAULT_ID:
                _keep_default("workspace", columns)
            if columns.get("name", before.name) != before.name:
                names.check(proper_flaw(columns["name"], "workspace"))
                _check_free(connection, "workspace", {"name": columns["name"]})
            update_row(connection, "workspace", before.id, columns)
            return msgspec.structs.replace(before, **columns)

        return await self._db.awrite(change, lambda _: self._on_rename())

    async def delete_workspace(self, workspace_id: int) -> None:
        """Delete an empty workspace if it exists."""

        def change(connection: Connection) -> None:
            try:
                record = _find_workspace(connection, workspace_id)
            except NotFound:
                return  # a repeated request, whose first response was lost
            if record.id == DEFAULT_ID:
                _keep_default("workspace", {"deleted": True})
            _check_empty("workspace", record.name, {"project": record.projects})
            connection.run("DELETE FROM workspaces WHERE id = :id", {"id": record.id})

        await self._db.awrite(change)

    async def list_workspaces(
        self,
        *,
        name: str | None,
        archived: bool | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> WorkspacePage:
        """Return a page of the workspaces that match all filters."""
        conditions, order = Conditions(), Order(sort, NAMED_SORTS)
        conditions.equal("name", name)
        conditions.equal("archived", archived)
        order.start_after(cursor, conditions)
        query = f"SELECT *, {order.columns} FROM workspaces{conditions.text}{order.tail(limit)}"

        def run(connection: Connection) -> WorkspacePage:
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
            return WorkspacePage(items=tuple(_workspaces(connection, rows)), next=following)

        return await self._db.aread(run)

    # -- projects ---------------------------------------------------------------------

    async def create_project(self, request: CreateProject) -> ProjectRecord:
        """Create a project. If the request's key already exists, return the existing project."""
        names.check(proper_flaw(request.name, "project"))

        def change(connection: Connection) -> ProjectRecord:
            query = "SELECT * FROM projects WHERE uid = :key"
            made = connection.row(query, {"key": request.key})
            if made is None:
                workspace = _find_workspace(connection, request.workspace_id)
                identity = join_place(workspace.name, request.name)
                made = find_project(connection, identity)
                if made is not None and not request.exist_ok:
                    raise name_conflict("project", identity, is_new=True)
                if made is None:
                    check_not_archived("workspace", find_workspace(connection, workspace.name))
                    made = insert_project(
                        connection, request.key, workspace.id, request.name,
                        request.description, time.time(),
                    )  # fmt: skip
            return _projects(connection, [made])[0]

        return await self._db.awrite(change)

    async def project(self, which: int | str) -> ProjectRecord:
        """Return one project by id or name."""
        return await self._db.aread(lambda connection: _find_project(connection, which))

    async def change_project(self, project_id: int, request: ChangeProject) -> ProjectRecord:
        """Change a project's attributes, or move the project to another workspace."""

        def change(connection: Connection) -> ProjectRecord:
            before = _find_project(connection, project_id)
            columns = set_fields(request, ("name", "description", "archived"))
            if not isinstance(request.workspace, msgspec.UnsetType):
                workspace = find_workspace(connection, request.workspace)
                if workspace["id"] != before.workspace_id:
                    check_not_archived("workspace", workspace)
                    columns["workspace_id"] = workspace["id"]
            if before.id == DEFAULT_ID:
                _keep_default("project", columns)
            names.check(proper_flaw(columns.get("name", before.name), "project"))
            identity = {
                "workspace_id": columns.get("workspace_id", before.workspace_id),
                "name": columns.get("name", before.name),
            }
            if identity != {"workspace_id": before.workspace_id, "name": before.name}:
                _check_free(connection, "project", identity)
            update_row(connection, "project", before.id, columns)
            return _find_project(connection, before.id)

        return await self._db.awrite(change, lambda _: self._on_rename())

    async def delete_project(self, project_id: int) -> None:
        """Delete an empty project if it exists."""

        def change(connection: Connection) -> None:
            try:
                record = _find_project(connection, project_id)
            except NotFound:
                return  # a repeated request, whose first response was lost
            if record.id == DEFAULT_ID:
                _keep_default("project", {"deleted": True})
            held = {"experiment": record.experiments, "model": record.models}
            _check_empty("project", record.place, held)
            connection.run("DELETE FROM projects WHERE id = :id", {"id": record.id})

        await self._db.awrite(change)

    async def list_projects(
        self,
        *,
        workspace: str | None,
        workspace_id: int | None = None,
        name: str | None,
        archived: bool | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> ProjectPage:
        """Return a page of the projects that match all filters.

        Raise NotFound if the workspace does not exist.
        """
        order = Order(sort, NAMED_SORTS)

        def run(connection: Connection) -> ProjectPage:
            conditions = Conditions()
            conditions.equal("name", name)
            conditions.equal("archived", archived)
            within = resolve_workspace(connection, workspace, workspace_id)
            if within is not None:
                conditions.equal("workspace_id", within)
            elif archived is False:
                conditions.require("workspace_id NOT IN (SELECT id FROM workspaces WHERE archived)")
            order.start_after(cursor, conditions)
            query = f"SELECT *, {order.columns} FROM projects{conditions.text}{order.tail(limit)}"
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
            return ProjectPage(items=tuple(_projects(connection, rows)), next=following)

        return await self._db.aread(run)


# -- rows and records -----------------------------------------------------------------


def _find_workspace(connection: Connection, which: int | str) -> WorkspaceRecord:
    return _workspaces(connection, [find_row(connection, "workspace", which)])[0]


def _find_project(connection: Connection, which: int | str) -> ProjectRecord:
    return _projects(connection, [project_row(connection, which)])[0]


def _workspaces(connection: Connection, rows: Sequence[Row]) -> list[WorkspaceRecord]:
    held = _counts(connection, "projects", "workspace_id", rows)
    return [
        WorkspaceRecord(
            id=row["id"],
            name=row["name"],
            created=row["created"],
            description=row["description"],
            archived=bool(row["archived"]),
            projects=held.get(row["id"], 0),
        )
        for row in rows
    ]


def _projects(connection: Connection, rows: Sequence[Row]) -> list[ProjectRecord]:
    experiments = _counts(connection, "experiments", "project_id", rows)
    models = _counts(connection, "models", "project_id", rows)
    conditions = Conditions()
    conditions.one_of("id", sorted({row["workspace_id"] for row in rows}) or [-1])
    query = f"SELECT id, name FROM workspaces{conditions.text}"
    workspaces = {
        workspace["id"]: workspace["name"]
        for workspace in connection.rows(query, conditions.parameters)
    }
    return [
        ProjectRecord(
            id=row["id"],
            name=row["name"],
            workspace=workspaces[row["workspace_id"]],
            workspace_id=row["workspace_id"],
            created=row["created"],
            description=row["description"],
            archived=bool(row["archived"]),
            experiments=experiments.get(row["id"], 0),
            models=models.get(row["id"], 0),
        )
        for row in rows
    ]


def _counts(connection: Connection, table: str, column: str, rows: Sequence[Row]) -> dict[int, int]:
    """Return, for each of the rows, how many rows of `table` refer to it in the column `column`."""
    conditions = Conditions()
    conditions.one_of(column, [row["id"] for row in rows] or [-1])
    query = (
        f"SELECT {column} AS id, count(*) AS number FROM {table}{conditions.text} GROUP BY {column}"
    )
    return {row["id"]: row["number"] for row in connection.rows(query, conditions.parameters)}


# -- changes --------------------------------------------------------------------------


def _check_free(connection: Connection, noun: str, wanted: dict[str, Any]) -> None:
    conditions = Conditions()
    for column, value in wanted.items():
        conditions.equal(column, value)
    query = f"SELECT id FROM {noun}s{conditions.text}"
    if connection.value(query, conditions.parameters) is not None:
        raise name_conflict(noun, wanted["name"])


def _keep_default(noun: str, columns: dict[str, Any]) -> None:
    """Refuse to rename, move, archive or delete the default workspace or project."""
    verbs = {
        "name": "renamed", "archived": "archived", "workspace_id": "moved", "deleted": "deleted",
    }  # fmt: skip
    done = [
        verbs[key]
        for key, value in columns.items()
        if key in verbs and value not in (False, DEFAULT)
    ]
    if done:
        raise Conflict(
            f"The {noun} {DEFAULT!r} is the default {noun}, so it cannot be {done[0]}.",
            hint=f"Create your own: windlass {noun} create NAME",
        )


def _check_empty(noun: str, name: str, held: dict[str, int]) -> None:
    some = [
        f"{count} {what}" + ("" if count == 1 else "s") for what, count in held.items() if count
    ]
    if some:
        raise Conflict(
            f"The {noun} {name!r} contains {' and '.join(some)}, so it cannot be deleted.",
            hint=f"Move its contents first, or archive it: windlass {noun} archive {name}",
        )

"""Looks up projects by name (`project` or `workspace/project`).

Experiments and models refer to a project by its id, so renaming a project changes only one row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from windlass.model.errors import Conflict, NotFound
from windlass.model.text import names
from windlass.model.text.names import DEFAULT, join_place, place_flaw, split_place
from windlass.server.db.base import Connection, Row
from windlass.server.db.named_rows import as_id, newest_names, not_found
from windlass.server.db.paging import Conditions

DEFAULT_ID = 1  # the id of the workspace `default` and of its project `default`

_FIND = """
SELECT projects.*, workspaces.name AS workspace, workspaces.archived AS in_archive
FROM projects JOIN workspaces ON workspaces.id = projects.workspace_id
"""

# Archiving a workspace also archives its projects, and archiving a project its experiments.
ARCHIVED_PROJECTS = """
SELECT projects.id FROM projects JOIN workspaces ON workspaces.id = projects.workspace_id
WHERE projects.archived OR workspaces.archived
"""
ARCHIVED_EXPERIMENTS = f"""
SELECT id FROM experiments WHERE archived
UNION ALL SELECT id FROM experiments WHERE project_id IN ({ARCHIVED_PROJECTS})
"""


def require_project(conditions: Conditions, column: str, project: str | None) -> None:
    """Add the condition that a column holds the named project's id."""
    if project is None:
        return
    if project == DEFAULT:
        conditions.equal(column, DEFAULT_ID)
        return
    workspace, name = map(conditions.bind, split_place(project))
    conditions.require(
        f"{column} = (SELECT projects.id FROM projects"
        f" JOIN workspaces ON workspaces.id = projects.workspace_id"
        f" WHERE workspaces.name = {workspace} AND projects.name = {name})"
    )


def project_paths(connection: Connection, project_ids: Iterable[int]) -> dict[int, str]:
    """Return the full names of projects, by project id."""
    paths = {DEFAULT_ID: DEFAULT}
    others = {project_id for project_id in project_ids if project_id not in paths}
    if others:
        conditions = Conditions()
        conditions.one_of("projects.id", sorted(others))
        for row in connection.rows(_FIND + conditions.text, conditions.parameters):
            paths[row["id"]] = join_place(row["workspace"], row["name"])
    return paths


def find_project(connection: Connection, project: str) -> Row | None:
    """Return the named project's row, including its workspace's name.

    Return None if there is no such project.
    """
    workspace, name = split_place(project)
    return connection.row(
        f"{_FIND} WHERE workspaces.name = :workspace AND projects.name = :name",
        {"workspace": workspace, "name": name},
    )


def get_or_create_project(connection: Connection, project: str | int, now: float) -> int:
    """Return the id of the project for a new experiment or model.

    `project` is a name or an id. If no project has the name, the project is created, but its
    workspace must exist. Neither the project nor the workspace may be archived.
    """
    if project in (DEFAULT, DEFAULT_ID):
        return DEFAULT_ID
    if isinstance(project, int):
        row = connection.row(f"{_FIND} WHERE projects.id = :id", {"id": as_id(project)})
        if row is None:
            raise NotFound(f"There is no project {project}.", hint="See: windlass project ls")
        check_not_archived("project", row)
        return project
    names.check(place_flaw(project), "project: ")
    row = find_project(connection, project)
    if row is None:
        workspace, name = split_place(project)
        workspace_row = find_workspace(connection, workspace)
        check_not_archived("workspace", workspace_row)
        row = insert_project(connection, uuid.uuid4().hex, workspace_row["id"], name, "", now)
    else:
        check_not_archived("project", row)
    project_id: int = row["id"]
    return project_id


def insert_project(
    connection: Connection, key: str, workspace_id: int, name: str, description: str, now: float
) -> Row:
    """Insert a project and return its row."""
    [row] = connection.rows(
        "INSERT INTO projects (uid, workspace_id, name, description, created)"
        " VALUES (:uid, :workspace_id, :name, :description, :created) RETURNING *",
        {
            "uid": key,
            "workspace_id": workspace_id,
            "name": name,
            "description": description,
            "created": now,
        },
    )
    return row


def find_workspace(connection: Connection, name: str) -> Row:
    """Return the workspace with this name. If there is none, raise NotFound with a suggestion."""
    row = connection.row("SELECT * FROM workspaces WHERE name = :name", {"name": name})
    if row is None:
        raise not_found("workspace", name, newest_names(connection, "workspace"))
    return row


def check_not_archived(noun: str, row: Row) -> None:
    """Raise Conflict if a project or workspace is archived, so that nothing is added to it.

    Lists hide the contents of an archive, so nobody would see the addition.
    """
    keys = row.keys()
    if row["archived"]:
        name = row["name"]
        if noun == "project" and "workspace" in keys:
            name = join_place(row["workspace"], row["name"])
    elif "in_archive" in keys and row["in_archive"]:
        noun, name = "workspace", row["workspace"]
    else:
        return
    raise Conflict(
        f"The {noun} {name!r} is archived, so nothing can be added to it.",
        hint=f"Unarchive it first: windlass {noun} unarchive {name}",
    )

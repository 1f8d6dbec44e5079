"""Which project a text names, and which text names a project.

Experiments and models know their project by its id: to rename one is to change one row.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from windlass.model import names
from windlass.model.errors import Conflict, NotFound
from windlass.model.names import DEFAULT, join_place, place_flaw, split_place
from windlass.server.database import Connection, Row
from windlass.server.named import as_id, missing, newest_names
from windlass.server.paging import Conditions

DEFAULT_ID = 1  # of the workspace `default`, and of the project of that name in it

_FIND = """
SELECT projects.*, workspaces.name AS workspace, workspaces.archived AS in_archive
FROM projects JOIN workspaces ON workspaces.id = projects.workspace_id
"""

# Those that are archived, by themselves or with all that they belong to.
ARCHIVED_PROJECTS = """
SELECT projects.id FROM projects JOIN workspaces ON workspaces.id = projects.workspace_id
WHERE projects.archived OR workspaces.archived
"""
ARCHIVED_EXPERIMENTS = f"""
SELECT id FROM experiments WHERE archived
UNION ALL SELECT id FROM experiments WHERE project_id IN ({ARCHIVED_PROJECTS})
"""


def in_project(asked: Conditions, column: str, place: str | None) -> None:
    """Ask that a column, the id of a project, is that of the project a text names."""
    if place is None:
        return
    if place == DEFAULT:
        asked.equal(column, DEFAULT_ID)
        return
    workspace, name = (asked.name_for(each) for each in split_place(place))
    asked.require(
        f"{column} = (SELECT projects.id FROM projects"
        f" JOIN workspaces ON workspaces.id = projects.workspace_id"
        f" WHERE workspaces.name = {workspace} AND projects.name = {name})"
    )


def places_of(connection: Connection, project_ids: Iterable[int]) -> dict[int, str]:
    """The texts that name projects, by their ids."""
    known = {DEFAULT_ID: DEFAULT}
    others = {each for each in project_ids if each not in known}
    if others:
        asked = Conditions()
        asked.one_of("projects.id", sorted(others))
        for row in connection.rows(_FIND + asked.text, asked.parameters):
            known[row["id"]] = join_place(row["workspace"], row["name"])
    return known


def find_project(connection: Connection, place: str) -> Row | None:
    """The project that a text names, with the name of its workspace, if there is one."""
    workspace, name = split_place(place)
    return connection.row(
        f"{_FIND} WHERE workspaces.name = :workspace AND projects.name = :name",
        {"workspace": workspace, "name": name},
    )


def project_for(connection: Connection, place: str | int, now: float) -> int:
    """The id of the project that a text names, or of that id, for something new in it.

    One of a name is made if there is none; its workspace must exist, and neither may be archived.
    """
    if place in (DEFAULT, DEFAULT_ID):
        return DEFAULT_ID
    if isinstance(place, int):
        found = connection.row(f"{_FIND} WHERE projects.id = :id", {"id": as_id(place)})
        if found is None:
            raise NotFound(f"There is no project {place}.", hint="See: windlass project ls")
        check_takes_more("project", found)
        return place
    names.check(place_flaw(place), "project: ")
    found = find_project(connection, place)
    if found is None:
        workspace, name = split_place(place)
        belongs_to = workspace_named(connection, workspace)
        check_takes_more("workspace", belongs_to)
        found = insert_project(connection, uuid.uuid4().hex, belongs_to["id"], name, "", now)
    else:
        check_takes_more("project", found)
    project_id: int = found["id"]
    return project_id


def insert_project(
    connection: Connection, key: str, workspace_id: int, name: str, description: str, now: float
) -> Row:
    """A project that was asked for, stored."""
    [made] = connection.rows(
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
    return made


def workspace_named(connection: Connection, name: str) -> Row:
    """The workspace of that name; a missing one is told with what there is near it."""
    row = connection.row("SELECT * FROM workspaces WHERE name = :name", {"name": name})
    if row is None:
        raise missing("workspace", name, newest_names(connection, "workspace"))
    return row


def check_takes_more(noun: str, row: Row) -> None:
    """Refuse something new in what is archived: nobody would find it."""
    keys = row.keys()
    if row["archived"]:
        called = row["name"]
        if noun == "project" and "workspace" in keys:
            called = join_place(row["workspace"], row["name"])
    elif "in_archive" in keys and row["in_archive"]:
        noun, called = "workspace", row["workspace"]
    else:
        return
    raise Conflict(
        f"The {noun} {called!r} is archived: nothing new is put there.",
        hint=f"Take it out first: windlass {noun} unarchive {called}",
    )

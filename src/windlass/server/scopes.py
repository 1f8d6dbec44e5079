"""Which project and which experiments a list is of, as a query names them.

What it is to be of exists, or the list is refused: an empty one would say that nothing is there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import msgspec

from windlass.model.errors import NotFound
from windlass.model.names import join_place
from windlass.server.database import Connection, Row
from windlass.server.named import as_id, find_row, missing
from windlass.server.paging import Conditions
from windlass.server.projects import find_project, places_of, workspace_named


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What trials are of: an experiment, by a text or its id, and a project likewise."""

    experiment: str | None = None
    experiment_id: int | None = None
    project: str | None = None
    project_id: int | None = None

    def limit(self, connection: Connection, asked: Conditions, *, is_first: bool) -> None:
        """Ask for the trials of it only; on the first page, of what exists only."""
        try:
            project = project_of(connection, self.project, self.project_id)
            if self.experiment is not None:
                ids = experiments_called(connection, self.experiment, project)
                asked.one_of("trials.experiment_id", ids)
            if self.experiment_id is not None:
                found = experiment_row(connection, self.experiment_id)
                asked.equal("trials.experiment_id", found["id"])
        except NotFound:
            if is_first:
                raise
            asked.require("FALSE")  # it was deleted while the list was walked
            return
        if project is not None:
            within = f"SELECT id FROM experiments WHERE project_id = {asked.name_for(project)}"
            asked.require(f"trials.experiment_id IN ({within})")


def project_of(connection: Connection, place: str | None, project_id: int | None) -> int | None:
    """The id of the project that is named, by a text or its id, if one is."""
    which = place if project_id is None else project_id
    if which is None:
        return None
    found: int = project_row(connection, which)["id"]
    return found


def project_row(connection: Connection, which: int | str) -> Row:
    """The project that a text names, or of that id; a missing one is told with what is near."""
    row = find_project(connection, which) if isinstance(which, str) else None
    if row is None:
        row = connection.row("SELECT * FROM projects WHERE id = :id", {"id": as_id(which)})
    if row is None:
        if isinstance(which, str) and "/" in which:
            workspace_named(connection, which.partition("/")[0])  # that one may be missing
        found = connection.rows(
            "SELECT workspaces.name AS workspace, projects.name FROM projects"
            " JOIN workspaces ON workspaces.id = projects.workspace_id"
            " ORDER BY projects.id DESC LIMIT 1000"
        )
        there = [join_place(each["workspace"], each["name"]) for each in found]
        raise missing("project", which, there)
    return row


def workspace_of(connection: Connection, which: str | None, workspace_id: int | None) -> int | None:
    """The id of the workspace that is named, by a text or its id, if one is."""
    named = which if workspace_id is None else workspace_id
    if named is None:
        return None
    found: int = find_row(connection, "workspace", named)["id"]
    return found


def experiments_called(connection: Connection, text: str, project_id: int | None) -> list[int]:
    """The experiments that a text names, the newest first; there is at least one.

    All of that name, in the project if one is given; else `project/name`, also with the workspace
    before it; else the one of that id.
    """
    for project, name in _readings(connection, text, project_id):
        asked = Conditions()
        asked.equal("name", name)
        asked.equal("project_id", project)
        asked.require("id > 0")
        query = f"SELECT id FROM experiments{asked.text} ORDER BY id DESC"
        ids = [row["id"] for row in connection.rows(query, asked.parameters)]
        if ids:
            return ids
    asked = Conditions()
    asked.equal("id", as_id(text))
    asked.equal("project_id", project_id)
    query = f"SELECT id FROM experiments{asked.text}"
    ids = [row["id"] for row in connection.rows(query, asked.parameters)]
    if not ids:
        raise missing_experiment(connection, text, project_id)
    return ids


def _readings(
    connection: Connection, text: str, project_id: int | None
) -> Iterator[tuple[int | None, str]]:
    """What a text may mean, the likeliest first: a project, or none, and a name."""
    yield project_id, text
    parts = text.split("/")  # which names of experiments may hold, those of projects not
    for number in range(1, min(len(parts), 3)):
        found = find_project(connection, "/".join(parts[:number]))
        if found is not None and project_id in (None, found["id"]):
            yield found["id"], "/".join(parts[number:])


def experiment_row(connection: Connection, experiment_id: int) -> Row:
    """The row of that id; an id may be more than a database can hold."""
    asked = {"id": experiment_id if 0 < experiment_id < 2**63 else -1}
    row = connection.row("SELECT * FROM experiments WHERE id = :id", asked)
    if row is None:
        raise missing_experiment(connection, experiment_id)
    return row


def missing_experiment(
    connection: Connection, key: str | int, project_id: int | None = None
) -> NotFound:
    """That there is none, and what was probably meant: a name that is near, the newest id."""
    asked = Conditions()
    asked.require("id > 0")
    asked.equal("project_id", project_id)
    rows = connection.rows(
        f"SELECT max(id) AS id, name, project_id FROM experiments{asked.text}"
        " GROUP BY name, project_id ORDER BY 1 DESC LIMIT 1000",
        asked.parameters,
    )
    places = places_of(connection, {row["project_id"] for row in rows})
    names = [] if isinstance(key, int) else [row["name"] for row in rows]
    if isinstance(key, str) and "/" in key:
        names += [f"{places[row['project_id']]}/{row['name']}" for row in rows]
    near = difflib.get_close_matches(str(key), names, n=1)
    hint = "See what there is: windlass ls --experiments"
    if near:
        hint = f"Did you mean {near[0]!r}?"
    elif rows:
        hint = f"The newest experiment is {rows[0]['id']} ({rows[0]['name']}). {hint}"
    is_name = isinstance(key, str) and not key.isdecimal()
    there = ""
    if project_id is not None:
        there = f" in the project {places_of(connection, {project_id})[project_id]!r}"
    return NotFound(f"There is no experiment {repr(key) if is_name else key}{there}.", hint=hint)

"""Scopes, which limit a list to a project or to experiments.

The client refers to a project or an experiment by name or id. An unknown name is an error, because
an empty list would suggest that there are no trials.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import msgspec

from windlass.model.errors import NotFound
from windlass.model.text.names import join_place
from windlass.server.db.base import Connection, Row
from windlass.server.db.named_rows import as_id, find_row, not_found
from windlass.server.db.paging import Conditions
from windlass.server.db.project_names import find_project, find_workspace, project_paths


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The experiment and the project that limit a list of trials, each given by name or id."""

    experiment: str | None = None
    experiment_id: int | None = None
    project: str | None = None
    project_id: int | None = None

    def limit(
        self, connection: Connection, conditions: Conditions, *, is_first: bool
    ) -> list[int] | None:
        """Add this scope's conditions to a query.

        An unknown name is an error only on the first page of a list. Returns the ids of the scope's
        experiments, or None if the scope names no experiment.
        """
        ids = None
        try:
            project = resolve_project(connection, self.project, self.project_id)
            if self.experiment is not None:
                ids = find_experiments(connection, self.experiment, project)
                conditions.one_of("trials.experiment_id", ids)
            if self.experiment_id is not None:
                row = experiment_row(connection, self.experiment_id)
                conditions.equal("trials.experiment_id", row["id"])
                ids = [row["id"]]
        except NotFound:
            if is_first:
                raise
            # The project or experiment was deleted after the first page.
            conditions.require("FALSE")
            return []
        if project is not None:
            subquery = f"SELECT id FROM experiments WHERE project_id = {conditions.bind(project)}"
            conditions.require(f"trials.experiment_id IN ({subquery})")
        return ids


def resolve_project(connection: Connection, name: str | None, project_id: int | None) -> int | None:
    """Return the id of the project that has this name or id. Return None if both are None."""
    which = name if project_id is None else project_id
    if which is None:
        return None
    row_id: int = project_row(connection, which)["id"]
    return row_id


def project_row(connection: Connection, which: int | str) -> Row:
    """Return the project with this name or id.

    Raise NotFound with a suggestion if there is none.
    """
    row = find_project(connection, which) if isinstance(which, str) else None
    if row is None:
        row = connection.row("SELECT * FROM projects WHERE id = :id", {"id": as_id(which)})
    if row is None:
        if isinstance(which, str) and "/" in which:
            # This call raises NotFound if the workspace is missing.
            find_workspace(connection, which.partition("/")[0])
        rows = connection.rows(
            "SELECT workspaces.name AS workspace, projects.name FROM projects"
            " JOIN workspaces ON workspaces.id = projects.workspace_id"
            " ORDER BY projects.id DESC LIMIT 1000"
        )
        paths = [join_place(project["workspace"], project["name"]) for project in rows]
        raise not_found("project", which, paths)
    return row


def resolve_workspace(
    connection: Connection, name: str | None, workspace_id: int | None
) -> int | None:
    """Return the id of the workspace that has this name or id. Return None if both are None."""
    which = name if workspace_id is None else workspace_id
    if which is None:
        return None
    row_id: int = find_row(connection, "workspace", which)["id"]
    return row_id


def find_experiments(connection: Connection, text: str, project_id: int | None) -> list[int]:
    """Return the ids of all experiments that `text` refers to, newest first.

    `text` is first tried as a name, then as `project/name` and `workspace/project/name`, and
    finally as an id. If `project_id` is set, only experiments in that project match. If no
    experiment matches, NotFound is raised.
    """
    for project, name in _meanings(connection, text, project_id):
        conditions = Conditions()
        conditions.equal("name", name)
        conditions.equal("project_id", project)
        conditions.require("id > 0")
        query = f"SELECT id FROM experiments{conditions.text} ORDER BY id DESC"
        ids = [row["id"] for row in connection.rows(query, conditions.parameters)]
        if ids:
            return ids
    conditions = Conditions()
    conditions.equal("id", as_id(text))
    conditions.equal("project_id", project_id)
    query = f"SELECT id FROM experiments{conditions.text}"
    ids = [row["id"] for row in connection.rows(query, conditions.parameters)]
    if not ids:
        raise experiment_not_found(connection, text, project_id)
    return ids


def _meanings(
    connection: Connection, text: str, project_id: int | None
) -> Iterator[tuple[int | None, str]]:
    """Yield the possible meanings of a text that refers to an experiment, the likeliest one first.

    Each meaning is a project id, or None for any project, and an experiment name.
    """
    yield project_id, text
    parts = text.split("/")  # experiment names may contain a slash, project names may not
    for number in range(1, min(len(parts), 3)):
        project = find_project(connection, "/".join(parts[:number]))
        if project is not None and project_id in (None, project["id"]):
            yield project["id"], "/".join(parts[number:])


def experiment_row(connection: Connection, experiment_id: int) -> Row:
    """Return the experiment with this id. Raise NotFound if there is none."""
    row = connection.row("SELECT * FROM experiments WHERE id = :id", {"id": as_id(experiment_id)})
    if row is None:
        raise experiment_not_found(connection, experiment_id)
    return row


def experiment_not_found(
    connection: Connection, key: str | int, project_id: int | None = None
) -> NotFound:
    """Return the error for an unknown experiment.

    The error suggests a similarly named experiment or the newest one.
    """
    conditions = Conditions()
    conditions.require("id > 0")
    conditions.equal("project_id", project_id)
    rows = connection.rows(
        f"SELECT max(id) AS id, name, project_id FROM experiments{conditions.text}"
        " GROUP BY name, project_id ORDER BY 1 DESC LIMIT 1000",
        conditions.parameters,
    )
    paths = project_paths(connection, {row["project_id"] for row in rows})
    names = [] if isinstance(key, int) else [row["name"] for row in rows]
    if isinstance(key, str) and "/" in key:
        names += [f"{paths[row['project_id']]}/{row['name']}" for row in rows]
    near = difflib.get_close_matches(str(key), names, n=1)
    hint = "See: windlass ls --experiments"
    if near:
        hint = f"Did you mean {near[0]!r}?"
    elif rows:
        hint = f"The newest experiment is {rows[0]['id']} ({rows[0]['name']}). {hint}"
    is_name = isinstance(key, str) and not key.isdecimal()
    where = ""
    if project_id is not None:
        where = f" in the project {project_paths(connection, {project_id})[project_id]!r}"
    return NotFound(f"There is no experiment {repr(key) if is_name else key}{where}.", hint=hint)

"""Experiments in the database. Every query for an experiment also counts its trials.

If a new trial names an experiment that does not exist, the store creates that experiment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.model.errors import Conflict
from windlass.model.records import (
    LISTED_KINDS,
    NO_EXPERIMENT,
    Artifact,
    ExperimentRecord,
    ExperimentState,
    Link,
    TrialState,
    experiment_state,
)
from windlass.model.requests import ChangeExperiment, CreateExperiment, CreateTrial, ExperimentPage
from windlass.model.thread_safe_types import learned
from windlass.server.db.base import Connection, Database, Row
from windlass.server.db.metadata import changed_columns, valid_labels
from windlass.server.db.named_rows import NAMED_SORTS, as_id
from windlass.server.db.paging import Conditions, Order, split_page
from windlass.server.db.project_names import (
    ARCHIVED_PROJECTS,
    DEFAULT_ID,
    get_or_create_project,
    project_paths,
    require_project,
)
from windlass.server.db.scopes import experiment_row, find_experiments, resolve_project

_T = TypeVar("_T")

_encode = msgspec.json.encode


class ExperimentStore:
    """Creates, changes and lists experiments."""

    def __init__(
        self,
        database: Database,
        is_held: Callable[[int], bool] = lambda _experiment_id: False,
        held_ids: Callable[[], Sequence[int]] = lambda: (),
        on_rename: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the store. The writer thread calls `on_rename` after a rename or a move.

        `is_held` and `held_ids` say which experiments are held open by a program.
        """
        self._db = database
        self._is_held = is_held
        self._held_ids = held_ids
        self._on_rename = on_rename

    async def create(self, request: CreateExperiment) -> ExperimentRecord:
        """Create an experiment.

        If the request's key already exists, the existing experiment is returned.
        """

        def change(connection: Connection) -> ExperimentRecord:
            query = "SELECT * FROM experiments WHERE uid = :key"
            row = connection.row(query, {"key": request.key})
            if row is None and request.exist_ok:
                row = _only_one(connection, request)
            made = row or insert(connection, request, time.time())
            return self._records(connection, [made])[0]

        return await self._db.awrite(change)

    async def change(
        self, experiment_id: int, request: ChangeExperiment, size_of: Callable[[str], int]
    ) -> ExperimentRecord:
        """Change an experiment's metadata. Fields that the request omits do not change."""

        def change(connection: Connection) -> ExperimentRecord:
            row = experiment_row(connection, experiment_id)
            # Reading and writing are one transaction of the only writer, so no concurrent change is
            # lost.
            [record] = self._records(connection, [row])
            columns = changed_columns(record, request, size_of, time.time())
            if request.project is not msgspec.UNSET and request.project != record.project:
                columns["project_id"] = get_or_create_project(
                    connection, request.project, time.time()
                )
            if not columns:
                return record
            values = {
                name: value if isinstance(value, (str, int)) else _encode(value)
                for name, value in columns.items()
            }
            changes = ", ".join(f"{name} = :{name}" for name in values)
            connection.run(
                f"UPDATE experiments SET {changes} WHERE id = :id", {**values, "id": row["id"]}
            )
            return self._records(connection, [experiment_row(connection, row["id"])])[0]

        def then(_record: ExperimentRecord) -> None:
            if request.name is not msgspec.UNSET or request.project is not msgspec.UNSET:
                self._on_rename()

        return await self._db.awrite(change, then)

    async def record(self, name: str) -> ExperimentRecord:
        """Return the newest experiment that has this name. A number is first tried as an id."""

        def query(connection: Connection) -> ExperimentRecord:
            parameters = {"id": as_id(name)}
            row = connection.row("SELECT * FROM experiments WHERE id = :id", parameters)
            if row is None:
                row = experiment_row(connection, find_experiments(connection, name, None)[0])
            return self._records(connection, [row])[0]

        return await self._db.aread(query)

    async def by_id(self, experiment_id: int) -> ExperimentRecord:
        """Return the experiment that has this id."""

        def query(connection: Connection) -> ExperimentRecord:
            return self._records(connection, [experiment_row(connection, experiment_id)])[0]

        return await self._db.aread(query)

    async def page(
        self,
        *,
        project: str | None = None,
        project_id: int | None = None,
        called: str | None = None,
        name: str | None = None,
        labels: Sequence[str] = (),
        states: Sequence[ExperimentState] = (),
        user: str | None = None,
        archived: bool | None = False,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> ExperimentPage:
        """Return a page of the experiments that match all filters.

        `called` is a name or an id, as in `find_experiments`.
        """
        order = Order(sort, NAMED_SORTS)
        held = [key for key in self._held_ids() if key > 0] if states else []

        def run(connection: Connection) -> ExperimentPage:
            conditions = Conditions()
            conditions.require(f"id > {NO_EXPERIMENT}")
            within = resolve_project(connection, project, project_id)
            conditions.equal("project_id", within)
            if called is not None:
                conditions.one_of("id", find_experiments(connection, called, within))
            if archived is not None:
                is_in = f"(archived OR project_id IN ({ARCHIVED_PROJECTS}))"
                conditions.require(is_in if archived else f"NOT {is_in}")
            conditions.equal("name", name)
            conditions.all_in("labels", labels)
            if user is not None:
                of_user = f'experiment_id = experiments.id AND "user" = {conditions.bind(user)}'
                conditions.require(f"EXISTS (SELECT 1 FROM trials WHERE {of_user})")
            if states:
                conditions.require(f"({' OR '.join(_stands(state, held) for state in states)})")
            order.start_after(cursor, conditions)
            query = (
                f"SELECT *, {order.columns} FROM experiments{conditions.text}{order.tail(limit)}"
            )
            rows, following = split_page(connection.rows(query, conditions.parameters), limit)
            return ExperimentPage(items=tuple(self._records(connection, rows)), next=following)

        return await self._db.aread(run)

    def _records(self, connection: Connection, rows: Sequence[Row]) -> list[ExperimentRecord]:
        return _experiment_records(connection, rows, self._is_held)


def _only_one(connection: Connection, request: CreateExperiment) -> Row | None:
    """Return the experiment of the requested name and project, or None if there is none.

    Raise Conflict if several experiments have this name.
    """
    rows = _namesakes(connection, request.project, request.name, 10)
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise Conflict(
            f"Several experiments are named {request.name!r}.",
            hint=f"Use an id, wl.get_experiment({rows[0]['id']}). They are: {ids}.",
        )
    return rows[0] if rows else None


def get_or_create_experiment(connection: Connection, request: CreateTrial, now: float) -> Row:
    """Return a new trial's experiment: by id, or else the newest with the requested name.

    If there is none, a new experiment is created. Archived experiments are ignored, because lists
    hide their trials.
    """
    if request.experiment_id == NO_EXPERIMENT:
        return _none(connection, now)
    if request.experiment_id is not None:
        return experiment_row(connection, request.experiment_id)
    rows = _namesakes(connection, request.project, request.experiment, 1)
    new = CreateExperiment(key=request.key, project=request.project, name=request.experiment)
    return rows[0] if rows else insert(connection, new, now)


def _namesakes(connection: Connection, project: str, name: str, limit: int) -> list[Row]:
    """Return a project's unarchived experiments that have this name, newest first."""
    conditions = Conditions()
    require_project(conditions, "project_id", project)
    conditions.equal("name", name)
    conditions.require("NOT archived")
    query = f"SELECT * FROM experiments{conditions.text} ORDER BY id DESC LIMIT {limit}"
    return connection.rows(query, conditions.parameters)


def _none(connection: Connection, now: float) -> Row:
    """Return the special experiment for commands and shells that name no experiment.

    The experiment is created on first use.
    """
    find = "SELECT * FROM experiments WHERE id = :id"
    row = connection.row(find, {"id": NO_EXPERIMENT})
    if row is None:
        connection.run(
            "INSERT INTO experiments (id, uid, project_id, name, created)"
            " VALUES (:id, '', :project_id, '', :now) ON CONFLICT (id) DO NOTHING",
            {"id": NO_EXPERIMENT, "project_id": DEFAULT_ID, "now": now},
        )
        row = connection.row(find, {"id": NO_EXPERIMENT})
    assert row is not None  # noqa: S101 -- the row was inserted in the same transaction
    return row


def insert(connection: Connection, request: CreateExperiment, now: float) -> Row:
    """Insert a new experiment and return its row."""
    [made] = connection.rows(
        "INSERT INTO experiments (uid, project_id, name, created, description, labels, config,"
        " priority) VALUES (:uid, :project_id, :name, :created, :description, :labels, :config,"
        " :priority) RETURNING *",
        {
            "uid": request.key,
            "project_id": get_or_create_project(connection, request.project, now),
            "name": request.name,
            "created": now,
            "description": request.description,
            "labels": _encode(valid_labels(request.labels)) if request.labels else None,
            "priority": request.priority,
            "config": _encode(request.config) if request.config else None,
        },
    )
    return made


def _stands(state: ExperimentState, held: Sequence[int]) -> str:
    """Return the SQL condition that an experiment is in a state.

    `held` lists the experiments that programs hold open.

    The function `experiment_state` applies the same rules in Python.
    """
    final = [trial_state for trial_state in TrialState if trial_state.is_final]
    going_on = [trial_state for trial_state in TrialState if not trial_state.is_final]
    is_held = f"experiments.id IN ({', '.join(map(str, held))})" if held else "FALSE"
    runs = f"({is_held} OR {_any_in(going_on)})"
    if state is ExperimentState.RUNNING:
        return runs
    worst_first = [TrialState.FAILED, TrialState.STOPPED, TrialState.SUCCEEDED]
    if state is ExperimentState.EMPTY:
        return f"(NOT {runs} AND NOT {_any_in(final)})"
    at = worst_first.index(TrialState(state.value))
    worse = f" AND NOT {_any_in(worst_first[:at])}" if at else ""
    return f"(NOT {runs} AND {_any_in([worst_first[at]])}{worse})"


def _any_in(states: Sequence[TrialState]) -> str:
    """Return the SQL condition that any ordinary trial in an experiment is in one of these states.

    Ordinary trials are all trials except auxiliary trials, commands and shells.
    """
    kinds = ", ".join(f"'{kind.value}'" for kind in LISTED_KINDS)
    listed = ", ".join(f"'{state.value}'" for state in states)
    return (
        "EXISTS (SELECT 1 FROM trials WHERE trials.experiment_id = experiments.id"
        f" AND trials.state IN ({listed}) AND NOT trials.auxiliary AND trials.kind IN ({kinds}))"
    )


def _experiment_records(
    connection: Connection, rows: Sequence[Row], is_held: Callable[[int], bool]
) -> list[ExperimentRecord]:
    counts: dict[int, dict[str, int]] = {row["id"]: {} for row in rows}
    auxiliary = dict.fromkeys(counts, 0)
    projects = project_paths(connection, {row["project_id"] for row in rows})
    conditions = Conditions()
    conditions.one_of("experiment_id", list(counts) or [-1])
    conditions.one_of("kind", [kind.value for kind in LISTED_KINDS])
    for count_row in connection.rows(
        f"SELECT experiment_id, state, auxiliary, count(*) AS number FROM trials{conditions.text}"
        " GROUP BY experiment_id, state, auxiliary",
        conditions.parameters,
    ):
        if count_row["auxiliary"]:
            auxiliary[count_row["experiment_id"]] += count_row["number"]
        else:
            counts[count_row["experiment_id"]][count_row["state"]] = count_row["number"]
    return [
        ExperimentRecord(
            id=row["id"],
            name=row["name"],
            project=projects[row["project_id"]],
            created=row["created"],
            trials=sum(counts[row["id"]].values()),
            states=counts[row["id"]],
            uid=row["uid"],
            state=experiment_state(counts[row["id"]], is_held=is_held(row["id"])),
            auxiliary=auxiliary[row["id"]],
            labels=_decode(row["labels"], tuple[str, ...], ()),
            description=row["description"],
            notes=row["notes"],
            config=_decode(row["config"], dict[str, Any], {}),
            links=_decode(row["links"], tuple[Link, ...], ()),
            artifacts=_decode(row["artifacts"], tuple[Artifact, ...], ()),
            searches=_decode(row["searches"], dict[str, dict[str, Any]], {}),
            priority=row["priority"],
            archived=bool(row["archived"]),
        )
        for row in rows
    ]


def _decode(text: bytes | None, kind: Any, otherwise: _T) -> _T:
    """Decode a JSON column. Return `otherwise` if the column was never written."""
    if text is None:
        return otherwise
    decoded: _T = msgspec.json.decode(text, type=learned(kind))
    return decoded

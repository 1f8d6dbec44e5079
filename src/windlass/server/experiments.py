"""Experiments in SQL: made with their first trial, counted when asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from windlass.model.errors import Conflict
from windlass.model.learning import learned
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
from windlass.model.wire import ChangeExperiment, CreateExperiment, CreateTrial, ExperimentPage
from windlass.server.database import Connection, Database, Row
from windlass.server.metadata import changed_columns, kept_labels
from windlass.server.named import as_id
from windlass.server.paging import Conditions, Order, cut
from windlass.server.projects import (
    ARCHIVED_PROJECTS,
    DEFAULT_ID,
    in_project,
    places_of,
    project_for,
)
from windlass.server.scopes import experiment_row, experiments_called, project_of

_T = TypeVar("_T")

_encode = msgspec.json.encode


class ExperimentStore:
    """Every experiment there is."""

    def __init__(
        self,
        database: Database,
        is_held: Callable[[int], bool] = lambda _experiment_id: False,
        held_ids: Callable[[], Sequence[int]] = lambda: (),
        on_rename: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_rename` is told when one is called otherwise or moved, in the writer's thread."""
        self._db = database
        self._is_held = is_held
        self._held_ids = held_ids
        self._on_rename = on_rename

    async def create(self, request: CreateExperiment) -> ExperimentRecord:
        """The experiment that a key made before, or that it makes now."""

        def change(connection: Connection) -> ExperimentRecord:
            query = "SELECT * FROM experiments WHERE uid = :key"
            found = connection.row(query, {"key": request.key})
            if found is None and request.exist_ok:
                found = _only_one(connection, request)
            made = found or insert(connection, request, time.time())
            return self._records(connection, [made])[0]

        return await self._db.awrite(change)

    async def change(
        self, experiment_id: int, request: ChangeExperiment, size_of: Callable[[str], int]
    ) -> ExperimentRecord:
        """Give an experiment other metadata; what is not given stays."""

        def change(connection: Connection) -> ExperimentRecord:
            row = experiment_row(connection, experiment_id)
            # Read and written in one turn of the only writer: nobody's change is lost.
            [record] = self._records(connection, [row])
            given = changed_columns(record, request, size_of, time.time())
            if request.project is not msgspec.UNSET and request.project != record.project:
                given["project_id"] = project_for(connection, request.project, time.time())
            if not given:
                return record
            values = {
                name: value if isinstance(value, (str, int)) else _encode(value)
                for name, value in given.items()
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
        """The newest experiment of that name; a number is taken as an id first."""

        def query(connection: Connection) -> ExperimentRecord:
            asked = {"id": as_id(name)}
            row = connection.row("SELECT * FROM experiments WHERE id = :id", asked)
            if row is None:
                row = experiment_row(connection, experiments_called(connection, name, None)[0])
            return self._records(connection, [row])[0]

        return await self._db.aread(query)

    async def by_id(self, experiment_id: int) -> ExperimentRecord:
        """The experiment with that id, whatever others are called."""

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
        """Experiments that match, a page of them; `called` as `experiments_called` reads it."""
        order = Order(sort, _EXPERIMENT_SORTS)
        held = [each for each in self._held_ids() if each > 0] if states else []

        def run(connection: Connection) -> ExperimentPage:
            asked = Conditions()
            asked.require(f"id > {NO_EXPERIMENT}")
            within = project_of(connection, project, project_id)
            asked.equal("project_id", within)
            if called is not None:
                asked.one_of("id", experiments_called(connection, called, within))
            if archived is not None:
                is_in = f"(archived OR project_id IN ({ARCHIVED_PROJECTS}))"
                asked.require(is_in if archived else f"NOT {is_in}")
            asked.equal("name", name)
            asked.all_in("labels", labels)
            if user is not None:
                of_user = f'experiment_id = experiments.id AND "user" = {asked.name_for(user)}'
                asked.require(f"EXISTS (SELECT 1 FROM trials WHERE {of_user})")
            if states:
                asked.require(f"({' OR '.join(_stands(state, held) for state in states)})")
            order.begin_after(cursor, asked)
            query = f"SELECT *, {order.columns} FROM experiments{asked.text}{order.tail(limit)}"
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            return ExperimentPage(items=tuple(self._records(connection, rows)), next=following)

        return await self._db.aread(run)

    def _records(self, connection: Connection, rows: Sequence[Row]) -> list[ExperimentRecord]:
        return _experiment_records(connection, rows, self._is_held)


def _only_one(connection: Connection, request: CreateExperiment) -> Row | None:
    """The experiment of a name in a project, if there is one; of several, none is meant."""
    rows = _namesakes(connection, request.project, request.name, 10)
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise Conflict(
            f"Several experiments are called {request.name!r}: which is meant?",
            hint=f"Ask for one by its id, wl.get_experiment({rows[0]['id']}). They are: {ids}.",
        )
    return rows[0] if rows else None


def experiment_of(connection: Connection, request: CreateTrial, now: float) -> Row:
    """The experiment a trial belongs to: the one of its id, else the newest of its name.

    That is made if there is none, or only archived ones: what is new is not put out of sight.
    """
    if request.experiment_id == NO_EXPERIMENT:
        return _none(connection, now)
    if request.experiment_id is not None:
        return experiment_row(connection, request.experiment_id)
    found = _namesakes(connection, request.project, request.experiment, 1)
    new = CreateExperiment(key=request.key, project=request.project, name=request.experiment)
    return found[0] if found else insert(connection, new, now)


def _namesakes(connection: Connection, project: str, name: str, limit: int) -> list[Row]:
    """The experiments of a name in a project that are not archived, the newest first."""
    asked = Conditions()
    in_project(asked, "project_id", project)
    asked.equal("name", name)
    asked.require("NOT archived")
    query = f"SELECT * FROM experiments{asked.text} ORDER BY id DESC LIMIT {limit}"
    return connection.rows(query, asked.parameters)


def _none(connection: Connection, now: float) -> Row:
    """What commands and shells belong to that are of no experiment; made for the first."""
    find = "SELECT * FROM experiments WHERE id = :id"
    found = connection.row(find, {"id": NO_EXPERIMENT})
    if found is None:
        connection.run(
            "INSERT INTO experiments (id, uid, project_id, name, created)"
            " VALUES (:id, '', :project_id, '', :now)",
            {"id": NO_EXPERIMENT, "project_id": DEFAULT_ID, "now": now},
        )
        found = connection.row(find, {"id": NO_EXPERIMENT})
    assert found is not None  # noqa: S101 -- it was just made, in this turn of the only writer
    return found


def insert(connection: Connection, request: CreateExperiment, now: float) -> Row:
    """An experiment that was asked for, stored."""
    [made] = connection.rows(
        "INSERT INTO experiments (uid, project_id, name, created, description, labels, config,"
        " priority) VALUES (:uid, :project_id, :name, :created, :description, :labels, :config,"
        " :priority) RETURNING *",
        {
            "uid": request.key,
            "project_id": project_for(connection, request.project, now),
            "name": request.name,
            "created": now,
            "description": request.description,
            "labels": _encode(kept_labels(request.labels)) if request.labels else None,
            "priority": request.priority,
            "config": _encode(request.config) if request.config else None,
        },
    )
    return made


def _stands(state: ExperimentState, held: Sequence[int]) -> str:
    """The condition that `experiment_state` says that of an experiment."""
    final = [each for each in TrialState if each.is_final]
    going_on = [each for each in TrialState if not each.is_final]
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
    """That an ordinary trial is in one of the states."""
    kinds = ", ".join(f"'{kind.value}'" for kind in LISTED_KINDS)
    listed = ", ".join(f"'{state.value}'" for state in states)
    return (
        "EXISTS (SELECT 1 FROM trials WHERE trials.experiment_id = experiments.id"
        f" AND trials.state IN ({listed}) AND NOT trials.auxiliary AND trials.kind IN ({kinds}))"
    )


_EXPERIMENT_SORTS = {name: name for name in ("id", "name", "created")}


def _experiment_records(
    connection: Connection, rows: Sequence[Row], is_held: Callable[[int], bool]
) -> list[ExperimentRecord]:
    counts: dict[int, dict[str, int]] = {row["id"]: {} for row in rows}
    auxiliary = dict.fromkeys(counts, 0)
    places = places_of(connection, {row["project_id"] for row in rows})
    asked = Conditions()
    asked.one_of("experiment_id", list(counts) or [-1])
    asked.one_of("kind", [kind.value for kind in LISTED_KINDS])
    for each in connection.rows(
        f"SELECT experiment_id, state, auxiliary, count(*) AS number FROM trials{asked.text}"
        " GROUP BY experiment_id, state, auxiliary",
        asked.parameters,
    ):
        if each["auxiliary"]:
            auxiliary[each["experiment_id"]] += each["number"]
        else:
            counts[each["experiment_id"]][each["state"]] = each["number"]
    return [
        ExperimentRecord(
            id=row["id"],
            name=row["name"],
            project=places[row["project_id"]],
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
    """What a column holds; one that was never written holds nothing."""
    if text is None:
        return otherwise
    decoded: _T = msgspec.json.decode(text, type=learned(kind))
    return decoded

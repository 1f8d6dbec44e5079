"""Trials in SQL: written by the API and the controller, read by all."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from windlass.model.errors import NotFound
from windlass.model.job import Job, JobSpec
from windlass.model.records import (
    Attempt,
    ErrorInfo,
    Provenance,
    ResultInfo,
    TrialRecord,
    TrialState,
    state_of,
)
from windlass.model.status import Event, JobStatus, Replica
from windlass.model.wire import CreateTrial, TrialPage
from windlass.server.database import Database
from windlass.server.experiments import find_or_make
from windlass.server.paging import Order, cut
from windlass.server.schema import attempts, events, experiments, trials

_encode = msgspec.json.encode


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished trial leaves in its record."""

    exit_code: int | None = None
    signal: str = ""
    error: ErrorInfo | None = None
    result: ResultInfo | None = None


class TrialStore:
    """Every trial there is."""

    def __init__(self, database: Database) -> None:
        self._db = database

    # -- made by the API --------------------------------------------------------------

    async def create(self, request: CreateTrial) -> tuple[int, bool]:
        """The trial's id, and whether it is new: one key makes one trial."""
        return await self._db.awrite(lambda connection: _insert(connection, request))

    async def find(self, key: str) -> int | None:
        """The trial that a key made before, if it did."""
        query = sa.select(trials.c.id).where(trials.c.uid == key)
        return await self._db.aread(lambda connection: connection.execute(query).scalar())

    async def request_stop(self, trial_id: int, reason: str, grace: float) -> str | None:
        """Note that a trial is to stop; its uid, or none if it has ended already.

        Asked again, the shorter grace counts.
        """

        def change(connection: sa.Connection) -> str | None:
            if not 0 < trial_id < 2**63:
                raise missing_trial(connection, trial_id)
            row = connection.execute(
                sa.select(trials.c.uid, trials.c.state, trials.c.status).where(
                    trials.c.id == trial_id
                )
            ).first()
            if row is None:
                raise missing_trial(connection, trial_id)
            if TrialState(row.state).is_final:
                return None
            status = msgspec.json.decode(row.status, type=JobStatus)
            asked = msgspec.structs.replace(
                status, stop_requested=True, stop_reason=reason, stop_grace=grace
            )
            if status.stop_requested:
                shorter = min(grace, status.stop_grace)
                asked = msgspec.structs.replace(status, stop_grace=shorter)
            if asked != status:
                status = asked
                connection.execute(
                    trials.update()
                    .where(trials.c.id == trial_id)
                    .values(status=_encode(status), state=state_of(status).value)
                )
            return str(row.uid)

        return await self._db.awrite(change)

    # -- the controller's half --------------------------------------------------------

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """A job as the controller needs it."""

        def query(connection: sa.Connection) -> tuple[Job, JobStatus] | None:
            row = connection.execute(
                sa.select(trials.c.id, trials.c.spec, trials.c.status).where(trials.c.uid == uid)
            ).first()
            if row is None:
                return None
            job = Job(uid=uid, trial_id=row.id, spec=msgspec.json.decode(row.spec, type=JobSpec))
            return job, msgspec.json.decode(row.status, type=JobStatus)

        return self._db.read(query)

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        happened: Sequence[Event],
        replicas: Sequence[Replica],
        outcome: Outcome | None = None,
    ) -> bool:
        """Record what was concluded, unless the status is no longer `old`."""

        def change(connection: sa.Connection) -> bool:
            row = connection.execute(
                sa.select(trials.c.id, trials.c.status, trials.c.started).where(trials.c.uid == uid)
            ).first()
            if row is None or row.status != _encode(old):
                return False
            values = _columns_of(new)
            if row.started is None:
                values["started"] = min((r.started for r in replicas if r.started), default=None)
            if outcome is not None:
                values |= {
                    "exit_code": outcome.exit_code,
                    "signal": outcome.signal,
                    "error": _encode(outcome.error) if outcome.error else None,
                    "result": _encode(outcome.result) if outcome.result else None,
                }
            connection.execute(trials.update().where(trials.c.id == row.id).values(values))
            _save_attempts(connection, row.id, replicas)
            if happened:
                connection.execute(
                    events.insert(),
                    [
                        {
                            "trial_id": row.id,
                            "time": event.time,
                            "kind": event.kind.value,
                            "reason": event.reason,
                            "message": event.message,
                        }
                        for event in happened
                    ],
                )
            return True

        return self._db.write(change)

    def unfinished(self) -> Iterable[str]:
        """The uids of all jobs of which something may still run, oldest first."""
        query = sa.select(trials.c.uid).where(~trials.c.settled).order_by(trials.c.id)
        return self._db.read(lambda connection: list(connection.execute(query).scalars()))

    def unfinished_jobs(self) -> list[Job]:
        """All jobs of which something may still run, oldest first."""
        query = (
            sa.select(trials.c.id, trials.c.uid, trials.c.spec)
            .where(~trials.c.settled)
            .order_by(trials.c.id)
        )

        def run(connection: sa.Connection) -> list[Job]:
            return [
                Job(
                    uid=row.uid,
                    trial_id=row.id,
                    spec=msgspec.json.decode(row.spec, type=JobSpec),
                )
                for row in connection.execute(query)
            ]

        return self._db.read(run)

    # -- asked by the API -------------------------------------------------------------

    async def record(self, trial_id: int) -> TrialRecord:
        """One trial."""

        def query(connection: sa.Connection) -> TrialRecord:
            if not 0 < trial_id < 2**63:
                raise missing_trial(connection, trial_id)
            row = connection.execute(_TRIAL_QUERY.where(trials.c.id == trial_id)).first()
            if row is None:
                raise missing_trial(connection, trial_id)
            return _records(connection, [row])[0]

        return await self._db.aread(query)

    async def page(
        self,
        *,
        uid: str | None,
        experiment: str | None,
        experiment_id: int | None,
        project: str | None,
        states: Sequence[TrialState],
        name: str | None,
        sort: str,
        cursor: str | None,
        limit: int,
    ) -> TrialPage:
        """Trials that match, a page of them."""
        query = _TRIAL_QUERY
        if uid is not None:
            query = query.where(trials.c.uid == uid)
        if experiment is not None:
            query = query.where(experiments.c.name == experiment)
        if experiment_id is not None:
            query = query.where(trials.c.experiment_id == experiment_id)
        if project is not None:
            query = query.where(experiments.c.project == project)
        if states:
            query = query.where(trials.c.state.in_([state.value for state in states]))
        if name is not None:
            query = query.where(trials.c.name == name)
        query = Order(sort, _TRIAL_SORTS).apply(query, cursor, limit)

        def run(connection: sa.Connection) -> TrialPage:
            rows, following = cut(connection.execute(query).all(), limit)
            return TrialPage(items=tuple(_records(connection, rows)), next=following)

        return await self._db.aread(run)

    async def events(self, trial_id: int) -> list[Event]:
        """What happened to a trial, oldest first."""
        query = sa.select(events).where(events.c.trial_id == trial_id).order_by(events.c.id)

        def run(connection: sa.Connection) -> list[Event]:
            if not 0 < trial_id < 2**63:
                raise missing_trial(connection, trial_id)
            return [
                msgspec.convert(
                    {"time": r.time, "kind": r.kind, "reason": r.reason, "message": r.message},
                    Event,
                )
                for r in connection.execute(query)
            ]

        return await self._db.aread(run)

    async def count(self, *states: TrialState) -> int:
        """How many trials are in one of the states."""
        query = sa.select(sa.func.count()).where(
            trials.c.state.in_([state.value for state in states])
        )
        return await self._db.aread(lambda connection: connection.execute(query).scalar_one())


_TRIAL_QUERY: sa.Select[Any] = sa.select(
    trials, experiments.c.name.label("experiment"), experiments.c.project
).join(experiments, experiments.c.id == trials.c.experiment_id)

_TRIAL_SORTS: dict[str, sa.ColumnElement[Any]] = {
    "id": trials.c.id,
    "created": trials.c.created,
    "name": trials.c.name,
    "state": trials.c.state,
    "started": sa.func.coalesce(trials.c.started, 0.0),
    "ended": sa.func.coalesce(trials.c.ended, 0.0),
}


def missing_trial(connection: sa.Connection, trial_id: int) -> NotFound:
    """The error for an id that no trial has, with what there is."""
    newest = connection.execute(sa.select(sa.func.max(trials.c.id))).scalar()
    there = f"The newest trial is {newest}." if newest else "Nothing has run here yet."
    return NotFound(f"There is no trial {trial_id}.", hint=f"{there} See them all: windlass ls")


def _insert(connection: sa.Connection, request: CreateTrial) -> tuple[int, bool]:
    existing = connection.execute(
        sa.select(trials.c.id).where(trials.c.uid == request.key)
    ).scalar()
    if existing is not None:
        return existing, False
    now = time.time()
    experiment_id = find_or_make(connection, request.project, request.experiment, now)
    status = JobStatus()
    trial_id = connection.execute(
        trials.insert()
        .values(
            uid=request.key,
            experiment_id=experiment_id,
            name=request.name or request.experiment,
            created=now,
            user=request.provenance.user,
            priority=request.spec.priority,
            params=_encode(request.params),
            spec=_encode(request.spec),
            provenance=_encode(request.provenance),
            **_columns_of(status),
        )
        .returning(trials.c.id)
    ).scalar_one()
    return trial_id, True


def _columns_of(status: JobStatus) -> dict[str, Any]:
    """What of a status can be asked for in SQL."""
    ending = next(
        (c for c in status.conditions if c.status and c.type.value in ("Succeeded", "Failed")), None
    )
    return {
        "status": _encode(status),
        "state": state_of(status).value,
        "settled": status.settled,
        "restarts": status.restarts,
        "ended": status.completion_time,
        "reason": ending.reason if ending else "",
        "message": ending.message if ending else "",
    }


def _save_attempts(connection: sa.Connection, trial_id: int, replicas: Sequence[Replica]) -> None:
    if not replicas:
        return
    rows = [
        {
            "trial_id": trial_id,
            "role": replica.id.role,
            "index": replica.id.index,
            "attempt": replica.id.attempt,
            "phase": replica.phase.value,
            "exit_code": replica.exit_code,
            "reason": replica.reason,
            "message": replica.message,
            "started": replica.started,
            "ended": replica.ended,
            "node": replica.node,
            "address": replica.address,
        }
        for replica in replicas
    ]
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insert = dialect.insert(attempts)
    keys = ("trial_id", "role", "index", "attempt")
    updated = {c.name: insert.excluded[c.name] for c in attempts.c if c.name not in keys}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=updated), rows)


def _records(connection: sa.Connection, rows: Sequence[sa.Row[Any]]) -> list[TrialRecord]:
    ids = [row.id for row in rows]
    by_trial: dict[int, list[Attempt]] = {trial_id: [] for trial_id in ids}
    found = connection.execute(
        sa.select(attempts)
        .where(attempts.c.trial_id.in_(ids))
        .order_by(attempts.c.role, attempts.c["index"], attempts.c.attempt)
    )
    for each in found.mappings():
        fields = {name: each[name] for name in Attempt.__struct_fields__}
        by_trial[each["trial_id"]].append(Attempt(**fields))
    return [_record(row, tuple(by_trial[row.id])) for row in rows]


def _record(row: sa.Row[Any], made: tuple[Attempt, ...]) -> TrialRecord:
    status = msgspec.json.decode(row.status, type=JobStatus)
    return TrialRecord(
        id=row.id,
        uid=row.uid,
        name=row.name,
        experiment=row.experiment,
        experiment_id=row.experiment_id,
        project=row.project,
        state=TrialState(row.state),
        message=row.message,
        created=row.created,
        started=row.started,
        ended=row.ended,
        params=msgspec.json.decode(row.params),
        spec=msgspec.json.decode(row.spec, type=JobSpec),
        restarts=row.restarts,
        exit_code=row.exit_code,
        signal=row.signal,
        reason=row.reason,
        error=msgspec.json.decode(row.error, type=ErrorInfo) if row.error else None,
        result=msgspec.json.decode(row.result, type=ResultInfo) if row.result else None,
        attempts=made,
        conditions=status.conditions,
        provenance=msgspec.json.decode(row.provenance, type=Provenance),
    )

"""Trials in SQL: written by the API and the controller, read by all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from windlass.model.errors import Conflict, NotFound
from windlass.model.job import Job, JobSpec
from windlass.model.records import (
    Attempt,
    Cause,
    ErrorInfo,
    Provenance,
    ResultInfo,
    TrialRecord,
    TrialState,
    state_of,
)
from windlass.model.status import ConditionType, Event, JobStatus, Replica
from windlass.model.wire import CreateTrial, TrialPage
from windlass.server.database import Connection, Database, Row
from windlass.server.experiments import find_or_make
from windlass.server.paging import Conditions, Order, cut
from windlass.server.recent import Recent, StoredTrial

_encode = msgspec.json.encode
_SWAP_TRIES = 10


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a finished trial leaves in its record."""

    exit_code: int | None = None
    signal: str = ""
    cause: Cause | None = None
    error: ErrorInfo | None = None
    result: ResultInfo | None = None


class TrialStore:
    """Every trial there is."""

    def __init__(self, database: Database, recent: Recent | None = None) -> None:
        self._db = database
        self._recent = recent or Recent()

    # -- made by the API --------------------------------------------------------------

    async def create(
        self,
        request: CreateTrial,
        *,
        before: Callable[[], None],
        begin: Callable[[Job], tuple[JobStatus, Sequence[Event]]],
        then: Callable[[], None],
    ) -> TrialRecord:
        """The trial that a key made before, or that it makes now.

        Of a new one, in the writer's thread: `before` is called first and may refuse, `begin`
        says what its first status is, and `then` is called when all of it is stored.
        """

        def change(connection: Connection) -> tuple[StoredTrial, bool]:
            existing = _find(connection, "uid", request.key)
            if existing is not None:
                return existing, False
            before()
            made = _insert(connection, request)
            status, happened = begin(made.job)
            new = _advanced(made.record, status, (), None)
            _store(connection, made, StoredTrial(record=new, status=status), happened)
            return StoredTrial(record=new, status=status), True

        def follow(stored: StoredTrial, is_new: bool) -> None:
            self._recent.put_written(stored)
            if is_new:
                then()

        stored, _ = await self._db.awrite(change, lambda made: follow(*made))
        return stored.record

    async def unless_stored(self, key: str, act: Callable[[], None]) -> None:
        """Do something about a key that made no trial, while nobody else makes one of it."""

        def change(connection: Connection) -> None:
            if _find(connection, "uid", key) is None:
                act()

        await self._db.awrite(change)

    async def request_stop(self, trial_id: int, reason: str, grace: float) -> str | None:
        """Note that a trial is to stop; its uid, or none if it has ended already.

        Asked again, the shorter grace counts.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            status = stored.status
            if stored.record.state.is_final:
                return None
            asked = msgspec.structs.replace(
                status, stop_requested=True, stop_reason=reason, stop_grace=grace
            )
            if status.stop_requested:
                shorter = min(grace, status.stop_grace)
                asked = msgspec.structs.replace(status, stop_grace=shorter)
            if asked == status or await self._db.awrite(*self._swap(stored, asked)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    async def change_spec(
        self, trial_id: int, change: Callable[[TrialRecord], tuple[JobSpec, Sequence[Event]]]
    ) -> str | None:
        """Give a trial that goes on another spec; its uid, or none if it stays as it was.

        `change` says what the spec is to be and what is told of it, and may refuse. The status
        changes with the spec: a look that was taken at the old one cannot be stored.
        """
        for _ in range(_SWAP_TRIES):
            stored = await self._stored(trial_id)
            spec, happened = change(stored.record)
            if spec == stored.record.spec:
                return None
            old = stored.status
            status = msgspec.structs.replace(old, generation=old.generation + 1)
            if await self._db.awrite(*self._swap(stored, status, happened, spec=spec)):
                return stored.record.uid
        raise Conflict(f"Trial {trial_id} keeps changing.", hint="Try again.")

    # -- the controller's half --------------------------------------------------------

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """A job as the controller needs it."""
        stored = self._find(uid)
        return None if stored is None else (stored.job, stored.status)

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
        stored = self._find(uid)
        if stored is None:
            return False
        if stored.status != old:
            self._recent.drop(stored.record.id)  # the next look reads what there is
            return False
        return self._db.write(*self._swap(stored, new, happened, replicas, outcome))

    def unfinished(self) -> Iterable[str]:
        """The uids of all jobs of which something may still run, oldest first."""
        query = "SELECT uid FROM trials WHERE NOT settled ORDER BY id"
        return [row["uid"] for row in self._db.read(lambda connection: connection.rows(query))]

    def unfinished_jobs(self) -> list[Job]:
        """All jobs of which something may still run, oldest first."""
        query = "SELECT id, uid, spec FROM trials WHERE NOT settled ORDER BY id"
        rows = self._db.read(lambda connection: connection.rows(query))
        return [Job(uid=r["uid"], trial_id=r["id"], spec=_decode_spec(r["spec"])) for r in rows]

    # -- asked by the API -------------------------------------------------------------

    async def record(self, trial_id: int) -> TrialRecord:
        """One trial."""
        return (await self._stored(trial_id)).record

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
        asked, order = Conditions(), Order(sort, _TRIAL_SORTS)
        asked.equal("trials.uid", uid)
        asked.equal("experiments.name", experiment)
        asked.equal("trials.experiment_id", experiment_id)
        asked.equal("experiments.project", project)
        asked.one_of("trials.state", [state.value for state in states])
        asked.equal("trials.name", name)
        order.begin_after(cursor, asked)
        query = f"SELECT {_COLUMNS}, {order.columns} {_FROM}{asked.text}{order.tail(limit)}"

        def run(connection: Connection) -> TrialPage:
            rows, following = cut(connection.rows(query, asked.parameters), limit)
            stored = _stored_trials(connection, rows)
            return TrialPage(items=tuple(each.record for each in stored), next=following)

        return await self._db.aread(run)

    async def events(self, trial_id: int) -> list[Event]:
        """What happened to a trial, oldest first."""
        query = (
            "SELECT time, kind, reason, message FROM events WHERE trial_id = :trial_id ORDER BY id"
        )
        await self._stored(trial_id)
        rows = await self._db.aread(
            lambda connection: connection.rows(query, {"trial_id": trial_id})
        )
        return [msgspec.convert(dict(row), Event) for row in rows]

    async def count(self, *states: TrialState) -> int:
        """How many trials are in one of the states."""
        asked = Conditions()
        asked.one_of("state", [state.value for state in states])
        query = f"SELECT count(*) FROM trials{asked.text}"
        return int(
            await self._db.aread(lambda connection: connection.value(query, asked.parameters))
        )

    # -- beneath ----------------------------------------------------------------------

    async def _stored(self, trial_id: int) -> StoredTrial:
        stored = self._recent.get(trial_id)
        if stored is None:
            stored = await self._db.aread(lambda connection: self._read(connection, "id", trial_id))
        if stored is None:
            newest = await self._db.aread(
                lambda connection: connection.value("SELECT max(id) FROM trials")
            )
            there = f"The newest trial is {newest}." if newest else "Nothing has run here yet."
            raise NotFound(
                f"There is no trial {trial_id}.", hint=f"{there} See them all: windlass ls"
            )
        return stored

    def _find(self, uid: str) -> StoredTrial | None:
        stored = self._recent.find(uid)
        if stored is None:
            stored = self._db.read(lambda connection: self._read(connection, "uid", uid))
        return stored

    def _read(self, connection: Connection, column: str, value: int | str) -> StoredTrial | None:
        mark = self._recent.mark()
        stored = _find(connection, column, value)
        if stored is not None:
            self._recent.put_read(stored, mark)
        return stored

    def _swap(
        self,
        stored: StoredTrial,
        status: JobStatus,
        happened: Sequence[Event] = (),
        replicas: Sequence[Replica] = (),
        outcome: Outcome | None = None,
        spec: JobSpec | None = None,
    ) -> tuple[Callable[[Connection], bool], Callable[[bool], None]]:
        """A change to a new status if the old one still stands, and what follows it."""
        record = _advanced(stored.record, status, replicas, outcome)
        if spec is not None:
            record = msgspec.structs.replace(record, spec=spec)
        new = StoredTrial(record=record, status=status)

        def change(connection: Connection) -> bool:
            return _store(connection, stored, new, happened)

        def then(is_done: bool) -> None:
            if is_done:
                self._recent.put_written(new)
            else:
                self._recent.drop(record.id)

        return change, then


_COLUMNS = "trials.*, experiments.name AS experiment, experiments.project AS project"
_FROM = "FROM trials JOIN experiments ON experiments.id = trials.experiment_id"

_TRIAL_SORTS = {
    "id": "trials.id",
    "created": "trials.created",
    "name": "trials.name",
    "state": "trials.state",
    "started": "coalesce(trials.started, 0.0)",
    "ended": "coalesce(trials.ended, 0.0)",
}

_INSERT = """
INSERT INTO trials (
    uid, experiment_id, name, state, settled, created, restarts, signal, reason, message,
    priority, "user", params, spec, status, provenance
) VALUES (
    :uid, :experiment_id, :name, :state, :settled, :created, 0, '', '', '',
    :priority, :user, :params, :spec, :status, :provenance
) RETURNING id
"""

_SWAP = """
UPDATE trials SET
    status = :status, state = :state, settled = :settled, restarts = :restarts,
    started = :started, ended = :ended, reason = :reason, message = :message,
    exit_code = :exit_code, signal = :signal, cause = :cause, error = :error, result = :result
WHERE id = :id AND status = :old
"""

_PUT_SPEC = "UPDATE trials SET spec = :spec WHERE id = :id"

_ATTEMPT_FIELDS = Attempt.__struct_fields__
_PUT_ATTEMPT = """
INSERT INTO attempts (
    trial_id, role, "index", attempt, phase, exit_code, reason, message, started, ended,
    node, address
) VALUES (
    :trial_id, :role, :index, :attempt, :phase, :exit_code, :reason, :message, :started, :ended,
    :node, :address
) ON CONFLICT (trial_id, role, "index", attempt) DO UPDATE SET
    phase = excluded.phase, exit_code = excluded.exit_code, reason = excluded.reason,
    message = excluded.message, started = excluded.started, ended = excluded.ended,
    node = excluded.node, address = excluded.address
"""

_ADD_EVENT = """
INSERT INTO events (trial_id, time, kind, reason, message)
VALUES (:trial_id, :time, :kind, :reason, :message)
"""


def _insert(connection: Connection, request: CreateTrial) -> StoredTrial:
    now = time.time()
    status = JobStatus()
    record = TrialRecord(
        id=0,
        uid=request.key,
        name=request.name or request.experiment,
        experiment=request.experiment,
        experiment_id=find_or_make(connection, request.project, request.experiment, now),
        project=request.project,
        state=state_of(status),
        created=now,
        params=request.params,
        spec=request.spec,
        provenance=request.provenance,
    )
    trial_id = connection.value(
        _INSERT,
        {
            "uid": record.uid,
            "experiment_id": record.experiment_id,
            "name": record.name,
            "state": record.state.value,
            "settled": status.settled,
            "created": now,
            "user": request.provenance.user,
            "priority": request.spec.priority,
            "params": _encode(request.params),
            "spec": _encode(request.spec),
            "status": _encode(status),
            "provenance": _encode(request.provenance),
        },
    )
    return StoredTrial(record=msgspec.structs.replace(record, id=trial_id), status=status)


def _store(
    connection: Connection, old: StoredTrial, new: StoredTrial, happened: Sequence[Event]
) -> bool:
    """Put `new` in the place of `old`, with what happened; false if `old` is no longer there."""
    trial_id = old.record.id
    values = {
        "id": trial_id,
        "old": _encode(old.status),
        "status": _encode(new.status),
        "settled": new.status.settled,
        **_columns_of(new.record),
    }
    if not connection.run(_SWAP, values):
        return False
    if new.record.spec is not old.record.spec:
        connection.run(_PUT_SPEC, {"id": trial_id, "spec": _encode(new.record.spec)})
    changed = [each for each in new.record.attempts if each not in old.record.attempts]
    if changed:
        connection.run_many(_PUT_ATTEMPT, [_attempt_row(trial_id, each) for each in changed])
    if happened:
        connection.run_many(_ADD_EVENT, [_event_row(trial_id, each) for each in happened])
    return True


def _advanced(
    record: TrialRecord, status: JobStatus, replicas: Sequence[Replica], outcome: Outcome | None
) -> TrialRecord:
    """The record that goes with a new status."""
    ending = next(
        (
            each
            for each in status.conditions
            if each.status and each.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
        ),
        None,
    )
    started = record.started
    if started is None:
        started = min((each.started for each in replicas if each.started), default=None)
    known = {(each.role, each.index, each.attempt): each for each in record.attempts}
    known |= {(r.id.role, r.id.index, r.id.attempt): _attempt_of(r) for r in replicas}
    left = outcome or Outcome(
        exit_code=record.exit_code,
        signal=record.signal,
        cause=record.cause,
        error=record.error,
        result=record.result,
    )
    return msgspec.structs.replace(
        record,
        state=state_of(status),
        reason=ending.reason if ending else "",
        message=ending.message if ending else "",
        started=started,
        ended=status.completion_time,
        restarts=status.restarts,
        exit_code=left.exit_code,
        signal=left.signal,
        cause=left.cause,
        error=left.error,
        result=left.result,
        attempts=tuple(known[key] for key in sorted(known)),
        conditions=status.conditions,
    )


def _columns_of(record: TrialRecord) -> dict[str, Any]:
    """What of a record changes, as its row has it."""
    return {
        "state": record.state.value,
        "restarts": record.restarts,
        "started": record.started,
        "ended": record.ended,
        "reason": record.reason,
        "message": record.message,
        "exit_code": record.exit_code,
        "signal": record.signal,
        "cause": _encode(record.cause) if record.cause else None,
        "error": _encode(record.error) if record.error else None,
        "result": _encode(record.result) if record.result else None,
    }


def _attempt_of(replica: Replica) -> Attempt:
    return Attempt(
        role=replica.id.role,
        index=replica.id.index,
        attempt=replica.id.attempt,
        phase=replica.phase.value,
        exit_code=replica.exit_code,
        reason=replica.reason,
        message=replica.message,
        started=replica.started,
        ended=replica.ended,
        node=replica.node,
        address=replica.address,
    )


def _attempt_row(trial_id: int, attempt: Attempt) -> dict[str, Any]:
    return {"trial_id": trial_id, **{name: getattr(attempt, name) for name in _ATTEMPT_FIELDS}}


def _event_row(trial_id: int, event: Event) -> dict[str, Any]:
    return {
        "trial_id": trial_id,
        "time": event.time,
        "kind": event.kind.value,
        "reason": event.reason,
        "message": event.message,
    }


def _find(connection: Connection, column: str, value: int | str) -> StoredTrial | None:
    if isinstance(value, int) and not 0 < value < 2**63:
        return None  # more than a database can hold
    query = f"SELECT {_COLUMNS} {_FROM} WHERE trials.{column} = :value"
    row = connection.row(query, {"value": value})
    return None if row is None else _stored_trials(connection, [row])[0]


def _stored_trials(connection: Connection, rows: Sequence[Row]) -> list[StoredTrial]:
    by_trial: dict[int, list[Attempt]] = {row["id"]: [] for row in rows}
    asked = Conditions()
    asked.one_of("trial_id", list(by_trial) or [-1])
    for each in connection.rows(
        f'SELECT * FROM attempts{asked.text} ORDER BY role, "index", attempt', asked.parameters
    ):
        fields = {name: each[name] for name in _ATTEMPT_FIELDS}
        by_trial[each["trial_id"]].append(Attempt(**fields))
    return [_stored_trial(row, tuple(by_trial[row["id"]])) for row in rows]


def _stored_trial(row: Row, made: tuple[Attempt, ...]) -> StoredTrial:
    status = msgspec.json.decode(row["status"], type=JobStatus)
    record = TrialRecord(
        id=row["id"],
        uid=row["uid"],
        name=row["name"],
        experiment=row["experiment"],
        experiment_id=row["experiment_id"],
        project=row["project"],
        state=TrialState(row["state"]),
        message=row["message"],
        created=row["created"],
        started=row["started"],
        ended=row["ended"],
        params=msgspec.json.decode(row["params"]),
        spec=_decode_spec(row["spec"]),
        restarts=row["restarts"],
        exit_code=row["exit_code"],
        signal=row["signal"],
        reason=row["reason"],
        cause=msgspec.json.decode(row["cause"], type=Cause) if row["cause"] else None,
        error=msgspec.json.decode(row["error"], type=ErrorInfo) if row["error"] else None,
        result=msgspec.json.decode(row["result"], type=ResultInfo) if row["result"] else None,
        attempts=made,
        conditions=status.conditions,
        provenance=msgspec.json.decode(row["provenance"], type=Provenance),
    )
    return StoredTrial(record=record, status=status)


def _decode_spec(text: bytes) -> JobSpec:
    return msgspec.json.decode(text, type=JobSpec)

"""Inserts, replaces and reads the database rows of trials."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from windlass.model.job import GeneratorCall, JobSpec
from windlass.model.records import (
    Attempt,
    Cause,
    ErrorInfo,
    Provenance,
    Recipe,
    ResultInfo,
    Summary,
    TrialKind,
    TrialRecord,
    TrialState,
    derive_state,
)
from windlass.model.requests import CreateTrial
from windlass.model.status import ConditionType, Event, JobStatus, Pod, Replica
from windlass.model.thread_safe_types import learned
from windlass.server.db.base import Connection, Row
from windlass.server.db.event_rows import add_events, without_nul
from windlass.server.db.metadata import valid_labels
from windlass.server.db.paging import Conditions
from windlass.server.db.project_names import project_paths
from windlass.server.stores.experiments import get_or_create_experiment
from windlass.server.stores.metrics.summaries import read_summaries
from windlass.server.stores.trials.cache import StoredTrial
from windlass.server.stores.trials.parameter_rows import put_parameters

_encode = msgspec.json.encode

_T = TypeVar("_T")


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A finished trial's results, as stored in its record."""

    exit_code: int | None = None
    signal: str = ""
    cause: Cause | None = None
    error: ErrorInfo | None = None
    result: ResultInfo | None = None


COLUMNS = "trials.*, experiments.name AS experiment, experiments.project_id AS project_id"
FROM = "FROM trials JOIN experiments ON experiments.id = trials.experiment_id"

_INSERT = """
INSERT INTO trials (
    uid, experiment_id, name, state, settled, created, restarts, signal, reason, message,
    priority, "user", params, spec, status, provenance, auxiliary, is_generated, parent_id,
    origin_id, labels, recipe, kind
) VALUES (
    :uid, :experiment_id, :name, :state, :settled, :created, 0, '', '', '',
    :priority, :user, :params, :spec, :status, :provenance, :auxiliary, :is_generated, :parent_id,
    :origin_id, :labels, :recipe, :kind
) RETURNING id
"""

_SWAP = """
UPDATE trials SET
    status = :status, state = :state, settled = :settled, restarts = :restarts,
    started = :started, ended = :ended, reason = :reason, message = :message,
    exit_code = :exit_code, signal = :signal, cause = :cause, error = :error, result = :result
WHERE id = :id AND status = :old
"""

_PUT_SPEC = "UPDATE trials SET spec = :spec, priority = :priority WHERE id = :id"

_PUT_LABELS = "UPDATE trials SET labels = :labels WHERE id = :id"

_WAITS = (ConditionType.QUEUED, ConditionType.SUSPENDED, ConditionType.RESTARTING)

_ATTEMPT_FIELDS = Attempt.__struct_fields__
_PUT_ATTEMPT = """
INSERT INTO attempts (
    trial_id, role, "index", attempt, phase, exit_code, reason, message, started, ended,
    node, address, pod
) VALUES (
    :trial_id, :role, :index, :attempt, :phase, :exit_code, :reason, :message, :started, :ended,
    :node, :address, :pod
) ON CONFLICT (trial_id, role, "index", attempt) DO UPDATE SET
    phase = excluded.phase, exit_code = excluded.exit_code, reason = excluded.reason,
    message = excluded.message, started = excluded.started, ended = excluded.ended,
    node = excluded.node, address = excluded.address, pod = excluded.pod
"""


def insert(connection: Connection, request: CreateTrial) -> StoredTrial:
    """Insert a new trial."""
    now = time.time()
    status = JobStatus()
    belongs_to = get_or_create_experiment(connection, request, now)
    spec = request.spec
    if spec.capabilities.has_priority and not spec.priority and belongs_to["priority"]:
        spec = msgspec.structs.replace(spec, priority=belongs_to["priority"])
    is_generated = isinstance(request.spec.roles[0].executable, GeneratorCall)
    record = TrialRecord(
        id=0,
        uid=request.key,
        name=request.name or belongs_to["name"],
        experiment=belongs_to["name"],
        experiment_id=belongs_to["id"],
        project=project_paths(connection, [belongs_to["project_id"]])[belongs_to["project_id"]],
        state=derive_state(status),
        created=now,
        started=now if is_generated else None,  # a generator trial never waits for capacity
        params=request.params,
        spec=spec,
        provenance=request.provenance,
        labels=valid_labels(request.labels),
        auxiliary=request.auxiliary,
        parent_id=request.parent_id,
        recipe=request.recipe,
        kind=request.kind,
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
            "priority": spec.priority,
            "params": _encode(request.params),
            "spec": _encode(spec),
            "status": _encode(status),
            "provenance": _encode(request.provenance),
            "auxiliary": request.auxiliary,
            "is_generated": is_generated,
            "parent_id": request.parent_id,
            "origin_id": request.recipe.origin_id,
            "labels": _encode(record.labels) if record.labels else None,
            "recipe": _encode(request.recipe) if request.recipe != Recipe() else None,
            "kind": request.kind.value,
        },
    )
    put_parameters(connection, trial_id, request.params)
    return StoredTrial(record=msgspec.structs.replace(record, id=trial_id), status=status)


def store(
    connection: Connection, old: StoredTrial, new: StoredTrial, happened: Sequence[Event]
) -> bool:
    """Replace the stored trial `old` with `new`, and add events.

    Returns False if the stored trial is no longer `old`.
    """
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
        spec = new.record.spec
        values = {"id": trial_id, "spec": _encode(spec), "priority": spec.priority}
        connection.run(_PUT_SPEC, values)
    if new.record.labels != old.record.labels:
        connection.run(_PUT_LABELS, {"id": trial_id, "labels": _encode(new.record.labels)})
    changed = [attempt for attempt in new.record.attempts if attempt not in old.record.attempts]
    if changed:
        connection.run_many(_PUT_ATTEMPT, [_attempt_row(trial_id, attempt) for attempt in changed])
    add_events(connection, trial_id, happened)
    return True


def advanced(
    record: TrialRecord, status: JobStatus, replicas: Sequence[Replica], outcome: Outcome | None
) -> TrialRecord:
    """Return a trial record after updating it for a new status."""
    ending = next(
        (
            condition
            for condition in status.conditions
            if condition.status
            and condition.type in (ConditionType.SUCCEEDED, ConditionType.FAILED)
        ),
        None,
    )
    started = record.started
    if started is None:
        started = min((replica.started for replica in replicas if replica.started), default=None)
    attempts = {(a.role, a.index, a.attempt): a for a in record.attempts}
    attempts |= {(r.id.role, r.id.index, r.id.attempt): _attempt_of(r) for r in replicas}
    left = outcome or Outcome(
        exit_code=record.exit_code,
        signal=record.signal,
        cause=record.cause,
        error=record.error,
        result=record.result,
    )
    return msgspec.structs.replace(
        record,
        state=derive_state(status),
        reason=without_nul(ending.reason) if ending else "",
        message=without_nul(ending.message) if ending else "",
        started=started,
        ended=_end_of(record, status, replicas),
        restarts=status.restarts,
        exit_code=left.exit_code,
        signal=left.signal,
        cause=left.cause,
        error=left.error,
        result=left.result,
        attempts=tuple(attempts[key] for key in sorted(attempts)),
        conditions=status.conditions,
    )


def _end_of(record: TrialRecord, status: JobStatus, replicas: Sequence[Replica]) -> float | None:
    """Return the time at which a trial ended.

    This is the time at which its last attempt ended, even if no server was running then. For a
    trial that was stopped while it waited, it is the time of the stop request.
    """
    if status.completion_time is None or record.ended is not None:
        return record.ended if status.is_finished else status.completion_time
    was_waiting = any(
        condition.status and condition.type in _WAITS for condition in record.conditions
    )
    if was_waiting and status.decisive is None:
        return status.completion_time
    ends = [replica.ended for replica in replicas if replica.phase.is_final and replica.ended]
    return min(max(ends), status.completion_time) if ends else status.completion_time


def _columns_of(record: TrialRecord) -> dict[str, Any]:
    """Return the database columns of a trial that change during its life, with their values."""
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
        reason=without_nul(replica.reason),
        message=without_nul(replica.message),
        started=replica.started,
        ended=replica.ended,
        node=replica.node,
        address=replica.address,
        pod=replica.pod,
    )


def _attempt_row(trial_id: int, attempt: Attempt) -> dict[str, Any]:
    fields = {name: getattr(attempt, name) for name in _ATTEMPT_FIELDS}
    pod = None if attempt.pod is None else _encode(attempt.pod)
    return {"trial_id": trial_id, **fields, "pod": pod}


def find(connection: Connection, column: str, value: int | str) -> StoredTrial | None:
    """Return the trial whose column has this value, or None if there is none."""
    if isinstance(value, int) and not 0 < value < 2**63:
        return None  # the number is out of range for the database
    query = f"SELECT {COLUMNS} {FROM} WHERE trials.{column} = :value"
    row = connection.row(query, {"value": value})
    return None if row is None else stored_trials(connection, [row])[0]


def stored_trials(connection: Connection, rows: Sequence[Row]) -> list[StoredTrial]:
    """Convert rows to trials, adding their attempts."""
    by_trial: dict[int, list[Attempt]] = {row["id"]: [] for row in rows}
    conditions = Conditions()
    conditions.one_of("trial_id", list(by_trial) or [-1])
    for row in connection.rows(
        f'SELECT * FROM attempts{conditions.text} ORDER BY role, "index", attempt',
        conditions.parameters,
    ):
        fields = {name: row[name] for name in _ATTEMPT_FIELDS}
        if fields["pod"] is not None:
            fields["pod"] = _decode(fields["pod"], Pod)
        by_trial[row["trial_id"]].append(Attempt(**fields))
    metrics = read_summaries(connection, list(by_trial))
    projects = project_paths(connection, {row["project_id"] for row in rows})
    texts = {
        row["trial_id"]: (row["description"], row["notes"])
        for row in connection.rows(
            f"SELECT * FROM trial_texts{conditions.text}", conditions.parameters
        )
    }
    return [
        _stored_trial(
            row,
            tuple(by_trial[row["id"]]),
            metrics.get(row["id"], {}),
            projects[row["project_id"]],
            texts.get(row["id"], ("", "")),
        )
        for row in rows
    ]


def _stored_trial(
    row: Row,
    made: tuple[Attempt, ...],
    metrics: dict[str, Summary],
    project: str,
    texts: tuple[str, str],
) -> StoredTrial:
    status = _decode(row["status"], JobStatus)
    record = TrialRecord(
        id=row["id"],
        uid=row["uid"],
        name=row["name"],
        experiment=row["experiment"],
        experiment_id=row["experiment_id"],
        project=project,
        state=TrialState(row["state"]),
        message=row["message"],
        created=row["created"],
        started=row["started"],
        ended=row["ended"],
        params=msgspec.json.decode(row["params"]),
        spec=decode_spec(row["spec"]),
        restarts=row["restarts"],
        exit_code=row["exit_code"],
        signal=row["signal"],
        reason=row["reason"],
        cause=_decode(row["cause"], Cause) if row["cause"] else None,
        error=_decode(row["error"], ErrorInfo) if row["error"] else None,
        result=_decode(row["result"], ResultInfo) if row["result"] else None,
        attempts=made,
        conditions=status.conditions,
        provenance=_decode(row["provenance"], Provenance),
        labels=tuple(msgspec.json.decode(row["labels"])) if row["labels"] else (),
        auxiliary=bool(row["auxiliary"]),
        parent_id=row["parent_id"],
        recipe=_decode(row["recipe"], Recipe) if row["recipe"] else Recipe(),
        asked_to_stop=row["asked_to_stop"],
        metrics=metrics,
        kind=TrialKind(row["kind"]),
        progress=row["progress"],
        description=texts[0],
        notes=texts[1],
    )
    return StoredTrial(record=record, status=status)


def decode_spec(text: bytes) -> JobSpec:
    """Decode a trial's job from its row."""
    return _decode(text, JobSpec)


def _decode(text: bytes, kind: type[_T]) -> _T:
    return msgspec.json.decode(text, type=learned(kind))

"""A trial's tasks: every attempt of every replica, including its resources and outcome."""

from __future__ import annotations

import asyncio
from bisect import bisect_right

import msgspec

from windlass.model.job import GeneratorCall, Role
from windlass.model.queue import TaskPage, TaskRecord
from windlass.model.records import Attempt, TrialRecord
from windlass.model.status import JobStatus, Phase, ReplicaId
from windlass.model.thread_safe_types import learned
from windlass.server.db.paging import cursor_text, read_cursor
from windlass.server.operations.controller_store import signal_of
from windlass.server.services import Services

Key = tuple[int, int, int]  # the role's number, the replica's index and the attempt's number

_key = msgspec.json.Decoder(learned(Key))


async def page_of_tasks(
    services: Services, trial_id: int, cursor: str | None, limit: int
) -> TaskPage:
    """Return a page of a trial's tasks, sorted by role, index and attempt."""
    record = await services.trials.record(trial_id)
    status = await services.trials.status(trial_id)
    keys = _keys(record)
    first = 0 if cursor is None else bisect_right(keys, read_cursor(cursor, _key))
    page = keys[first : first + limit]
    items = await asyncio.to_thread(_tasks, services, record, status, page)
    more = first + limit < len(keys)
    following = cursor_text(msgspec.json.encode(page[-1])) if more else None
    return TaskPage(items=items, next=following)


def _keys(record: TrialRecord) -> list[Key]:
    """Return the keys of a trial's tasks, from which pages and cursors are built.

    Each started attempt has a key, and so does each replica that has no started attempt.
    """
    if isinstance(record.spec.roles[0].executable, GeneratorCall):
        return []  # a generator trial consists of other trials that have their own tasks
    number = {role.name: position for position, role in enumerate(record.spec.roles)}
    begun = {(number[a.role], a.index, a.attempt) for a in record.attempts if a.role in number}
    if record.state.is_final:
        return sorted(begun)
    replicas = {key[:2] for key in begun}
    waiting = {
        (number[role.name], index, 0)
        for role in record.spec.roles
        for index in range(role.replicas)
        if (number[role.name], index) not in replicas
    }
    return sorted(begun | waiting)


def _tasks(
    services: Services, record: TrialRecord, status: JobStatus, keys: list[Key]
) -> tuple[TaskRecord, ...]:
    attempts = {
        (attempt.role, attempt.index, attempt.attempt): attempt for attempt in record.attempts
    }
    made = []
    for position, index, number in keys:
        role = record.spec.roles[position]
        attempt = attempts.get((role.name, index, number))
        made.append(_task(services, record, status, role, index, attempt))
    return tuple(made)


def _task(
    services: Services,
    record: TrialRecord,
    status: JobStatus,
    role: Role,
    index: int,
    attempt: Attempt | None,
) -> TaskRecord:
    at = f"{role.name}-{index}"
    requested = TaskRecord(
        trial_id=record.id,
        role=role.name,
        index=index,
        cpus=role.resources.cpus,
        memory=role.resources.memory,
        devices=status.devices.get(at, ()),
        address=status.addresses.get(at, ""),
        state="Pending" if status.admitted else "Queued",
    )
    if attempt is None:
        return requested
    replica = ReplicaId(role.name, index, attempt.attempt)
    process = services.runtime.process_of(record.job, replica)
    return msgspec.structs.replace(
        requested,
        attempt=attempt.attempt,
        state=attempt.phase,
        devices=requested.devices if process.devices is None else process.devices,
        node=attempt.node,
        address=attempt.address,
        pod=attempt.pod,
        pid=None if Phase(attempt.phase).is_final else process.pid,
        started=attempt.started,
        ended=attempt.ended,
        exit_code=attempt.exit_code,
        signal=signal_of(attempt),
        reason=attempt.reason,
        message=attempt.message,
    )

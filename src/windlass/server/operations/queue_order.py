"""The queue as shown to users: its order, why each trial waits, and changes to the order."""

from __future__ import annotations

import time

import msgspec
from msgspec.structs import replace

from windlass.engine.admission import Order
from windlass.model.errors import Conflict, InvalidArgument
from windlass.model.job import JobSpec
from windlass.model.queue import QueuePage, QueueRecord
from windlass.model.records import TrialRecord
from windlass.model.status import Event
from windlass.model.thread_safe_types import learned
from windlass.server.db.paging import cursor_text, read_cursor
from windlass.server.operations.describe import enrich
from windlass.server.operations.suspend_and_scale import check_goes_on, name_of
from windlass.server.services import Services
from windlass.server.stores.trials.store import QueuePosition
from windlass.server.web.notifications import QUEUE

_order = msgspec.json.Decoder(learned(Order))


async def page_of_queue(services: Services, cursor: str | None, limit: int) -> QueuePage:
    """Return a page of the waiting trials in their order of admission."""
    after = None if cursor is None else read_cursor(cursor, _order)
    line = services.admission.line(after, limit + 1)
    uids = [entry.uid for entry in line]
    if line and line[0].ahead is not None:
        uids.append(line[0].ahead)
    record_by_uid = await services.trials.by_uid(uids)
    items = tuple(
        QueueRecord(
            trial=enrich(services, record_by_uid[entry.uid]),
            position=entry.position,
            why=entry.why,
            ahead=record_by_uid[entry.ahead].id if entry.ahead in record_by_uid else None,
        )
        for entry in line[:limit]
        if entry.uid in record_by_uid  # a trial that has no record is just being stored
    )
    following = None
    if len(line) > limit:
        following = cursor_text(msgspec.json.encode(line[limit - 1].order))
    return QueuePage(items=items, next=following)


async def set_priority(services: Services, trial_id: int, priority: int) -> None:
    """Set a trial's priority.

    A waiting trial moves at once. For any other trial, the priority takes effect when the trial
    next waits.
    """

    def change(record: TrialRecord) -> tuple[JobSpec, list[Event]]:
        check_goes_on(record)
        return _with_priority(record, priority)

    async with services.moving:
        record = await services.trials.record(trial_id)
        check_goes_on(record)
        if not record.spec.capabilities.has_priority:
            raise Conflict(
                f"{name_of(record)} runs in a cluster, whose scheduler orders pods by "
                "their priority class.",
                hint="Submit it with a priority class of the cluster: "
                "wl.Kubernetes(priority_class=...)",
            )
        # If the priority stays the same, the trial keeps any position to which it was moved.
        if record.spec.priority != priority:
            await services.trials.change_spec(trial_id, change, position=None)
            _move(services, record, priority, (float(record.id), ()))


async def move_ahead_of(services: Services, trial_id: int, other_id: int) -> None:
    """Move a waiting trial directly ahead of another trial and give it that trial's priority.

    Moves run one at a time, so that each move starts from the previous move's result.
    """
    async with services.moving:
        record = await services.trials.record(trial_id)
        other = await services.trials.record(other_id)
        if trial_id == other_id:
            raise InvalidArgument(f"{name_of(record)} cannot be moved ahead of itself.")
        position = services.admission.order_ahead_of(record.uid, record.id, other.uid)
        if position is None:
            raise _not_waiting(services, record, other)
        priority, age, moves = position
        # Always a float, because stored statuses are compared as bytes.
        to: QueuePosition = (float(age), moves)
        if priority == record.spec.priority and _stands_so(services, record, other):
            return

        def change(record: TrialRecord) -> tuple[JobSpec, list[Event]]:
            check_goes_on(record)
            spec, events = _with_priority(record, priority)
            moved = f"moved ahead of trial {other.id} ({other.name})"
            return spec, [Event(time=time.time(), reason="Moved", message=moved), *events]

        await services.trials.change_spec(trial_id, change, position=to)
        _move(services, record, priority, to)


def _move(services: Services, record: TrialRecord, priority: int, position: QueuePosition) -> None:
    """Apply a trial's new position, which is already stored, to the admission queue.

    Then wake the controller and the streams.
    """
    services.admission.reorder(record.uid, priority, *position)
    services.controller.wake(record.uid)
    services.hub.publish(record.id)
    services.hub.publish(QUEUE)


def _with_priority(record: TrialRecord, priority: int) -> tuple[JobSpec, list[Event]]:
    old = record.spec.priority
    if old == priority:
        return record.spec, []
    event = Event(time=time.time(), reason="Priority", message=f"priority {old} -> {priority}")
    return replace(record.spec, priority=priority), [event]


def _stands_so(services: Services, record: TrialRecord, other: TrialRecord) -> bool:
    """Return whether a trial is already directly ahead of `other` in the queue."""
    one, two = services.admission.explain(record.uid), services.admission.explain(other.uid)
    return one is not None and two is not None and one[1] + 1 == two[1]


def _not_waiting(services: Services, *records: TrialRecord) -> Conflict:
    """Return the error for a move in which at least one of the trials does not wait."""
    gone = [record for record in records if not services.admission.is_waiting(record.uid)]
    states = " and ".join(f"{name_of(record)} is {record.state.value}" for record in gone)
    return Conflict(
        f"{states or 'One of them has just started'}. Only pending trials can be moved.",
        hint="See pending trials: windlass queue",
    )

"""Memory: what the engine has concluded of a job, kept in an annotation of the object itself.

The status of these objects has no room for it (definitions drop what they do not know), and
nothing else is as sure to be there as long as the job is. An annotation copied to another object,
as by `kubectl get -o yaml`, is not that object's memory: it says whose it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.kube.kinds import Object, uid_of
from windlass.kube.pods import seconds_of
from windlass.model.learning import learned
from windlass.model.status import Condition, ConditionType, JobStatus, Phase
from windlass.operator.names import MEMORY

_log = logging.getLogger(__name__)
_LAST = 2.5e11  # seconds since the epoch: the end of the year 9891, after which none can be written
_TYPES = {each.value: each for each in ConditionType}


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    status: JobStatus


def remembered(thing: Object) -> JobStatus | None:
    """What was concluded of an object's job; none if nothing is on record."""
    text = (thing["metadata"].get("annotations") or {}).get(MEMORY)
    if not text:
        return None
    try:
        memory = msgspec.json.decode(text, type=learned(_Memory))
        _check_times(memory.status)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        _log.warning("%s: its memory cannot be read: %s", thing["metadata"]["name"], error)
        return None
    return memory.status if memory.uid == uid_of(thing) else None


def memory_text(uid: str, status: JobStatus) -> str:
    """What is to be on record; the same text if nothing changed that matters.

    That a replica runs where it was pending is seen in its pod; addresses follow from names.
    """
    replicas = tuple(
        each
        if each.phase is None or each.phase.is_final
        else msgspec.structs.replace(each, phase=Phase.RUNNING)
        for each in status.replicas
    )
    kept = msgspec.structs.replace(
        status, replicas=replicas, addresses={}, last_reconcile_time=None
    )
    return msgspec.json.encode(_Memory(uid=uid, status=kept)).decode()


def _check_times(status: JobStatus) -> None:
    """Refuse what is no moment that could be said: whoever wrote it, it was not the operator."""
    times = [status.start_time, status.completion_time, status.last_reconcile_time]
    times += [each.not_before for each in status.replicas]
    for each in status.conditions:
        times += [each.last_update, each.last_transition]
    spans = [status.active_seconds, status.stop_grace]
    if not all(each is None or 0 <= each <= _LAST for each in (*times, *spans)):
        raise msgspec.ValidationError("it has times that are no times")


def inherited(thing: Object) -> JobStatus:
    """What an object's own status says, of one that another operator has looked after so far."""
    status: Mapping[str, Any] = thing.get("status") or {}
    conditions = []
    for each in status.get("conditions") or ():
        kind = _TYPES.get(each.get("type"))
        if kind is not None:
            conditions.append(
                Condition(
                    type=kind,
                    status=each.get("status") == "True",
                    reason=str(each.get("reason") or ""),
                    message=str(each.get("message") or ""),
                    last_update=seconds_of(each.get("lastUpdateTime")) or 0.0,
                    last_transition=seconds_of(each.get("lastTransitionTime")) or 0.0,
                )
            )
    order = list(ConditionType)
    conditions.sort(key=lambda each: order.index(each.type))
    found = JobStatus(
        conditions=tuple(conditions),
        start_time=seconds_of(status.get("startTime")),
        completion_time=seconds_of(status.get("completionTime")),
    )
    if found.is_finished and found.completion_time is None:
        last = max(each.last_update for each in conditions)
        found = msgspec.structs.replace(found, completion_time=last)
    return found

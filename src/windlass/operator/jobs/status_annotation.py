"""Stores a job's engine status in an annotation on the job's object.

The `status` field cannot hold the engine status, because the definitions drop unknown fields. An
annotation lives exactly as long as its object. It contains the object's uid, so that it has no
effect on a copy of the object, for example one made with `kubectl get -o yaml`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec

from windlass.kube.api.resource_kinds import Object, uid_of
from windlass.kube.timestamp import parse_timestamp
from windlass.model.status import Condition, ConditionType, JobStatus, Phase
from windlass.model.thread_safe_types import learned
from windlass.operator.names import MEMORY

_log = logging.getLogger(__name__)
_LAST = 2.5e11  # seconds since the epoch in the year 9892; later times may not be representable
_TYPES = {type_.value: type_ for type_ in ConditionType}


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    uid: str
    status: JobStatus


def stored_status(obj: Object) -> JobStatus | None:
    """Return the status stored in an object's annotation, or None if there is none."""
    text = (obj["metadata"].get("annotations") or {}).get(MEMORY)
    if not text:
        return None
    try:
        memory = msgspec.json.decode(text, type=learned(_Memory))
        _check_times(memory.status)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        _log.warning("%s: its stored status cannot be read: %s", obj["metadata"]["name"], error)
        return None
    return memory.status if memory.uid == uid_of(obj) else None


def annotation_text(uid: str, status: JobStatus) -> str:
    """Return the text of the annotation. It changes only if something relevant changes.

    The text does not say which replicas are pending or running, because the pods show that. It also
    omits the addresses, because they follow from names.
    """
    replicas = tuple(
        replica
        if replica.phase is None or replica.phase.is_final
        else msgspec.structs.replace(replica, phase=Phase.RUNNING)
        for replica in status.replicas
    )
    kept = msgspec.structs.replace(
        status, replicas=replicas, addresses={}, last_reconcile_time=None
    )
    return msgspec.json.encode(_Memory(uid=uid, status=kept)).decode()


def _check_times(status: JobStatus) -> None:
    """Raise an error if a time cannot be formatted.

    The operator itself never writes such a time, but another program can change the annotation.
    """
    times = [status.start_time, status.completion_time, status.last_reconcile_time]
    times += [replica.not_before for replica in status.replicas]
    for condition in status.conditions:
        times += [condition.last_update, condition.last_transition]
    spans = [status.active_seconds, status.stop_grace]
    if not all(moment is None or 0 <= moment <= _LAST for moment in (*times, *spans)):
        raise msgspec.ValidationError("it has invalid times")


def status_from_object(obj: Object) -> JobStatus:
    """Derive the status of an object that has no annotation from this operator.

    Such an object was managed by another operator before.
    """
    status: Mapping[str, Any] = obj.get("status") or {}
    conditions = []
    for condition in status.get("conditions") or ():
        kind = _TYPES.get(condition.get("type"))
        if kind is not None:
            conditions.append(
                Condition(
                    type=kind,
                    status=condition.get("status") == "True",
                    reason=str(condition.get("reason") or ""),
                    message=str(condition.get("message") or ""),
                    last_update=parse_timestamp(condition.get("lastUpdateTime")) or 0.0,
                    last_transition=parse_timestamp(condition.get("lastTransitionTime")) or 0.0,
                )
            )
    order = list(ConditionType)
    conditions.sort(key=lambda parsed: order.index(parsed.type))
    result = JobStatus(
        conditions=tuple(conditions),
        start_time=parse_timestamp(status.get("startTime")),
        completion_time=parse_timestamp(status.get("completionTime")),
    )
    if result.is_finished and result.completion_time is None:
        last = max(parsed.last_update for parsed in conditions)
        result = msgspec.structs.replace(result, completion_time=last)
    return result

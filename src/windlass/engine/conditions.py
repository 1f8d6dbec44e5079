"""Conditions: what is said of a job, changed one at a time and never without reason."""

from __future__ import annotations

import msgspec

from windlass.model.status import Condition, ConditionType, JobStatus

_ORDER = {kind: place for place, kind in enumerate(ConditionType)}

CREATED_REASON = "ReplicasCreated"
QUEUED_REASON = "WaitingForResources"
ADMITTED_REASON = "Admitted"
RUNNING_REASON = "ReplicasRunning"
STARTING_REASON = "ReplicasStarting"
RESTARTING_REASON = "ReplicaRestarting"
RESIZED_REASON = "Resized"
SUSPENDED_REASON = "Suspended"
RESUMED_REASON = "Resumed"
COMPLETED_REASON = "Completed"
REPLICA_FAILED_REASON = "ReplicaFailed"
BACKOFF_REASON = "BackoffLimitExceeded"
DEADLINE_REASON = "DeadlineExceeded"
INVALID_REASON = "InvalidSpec"  # what it asks for can never be had where it is to run
INTERRUPTED_REASON = "Interrupted"  # of an attempt that its own user ended: no failure of it


def say(status: JobStatus, kind: ConditionType, reason: str, message: str, now: float) -> JobStatus:
    """The status once a condition is said to hold; the same said twice changes nothing.

    >>> once = say(JobStatus(), ConditionType.RUNNING, "ReplicasRunning", "", 1.0)
    >>> once.holds(ConditionType.RUNNING)
    True
    >>> say(once, ConditionType.RUNNING, "ReplicasRunning", "", 2.0) is once
    True
    """
    return _put(status, kind, True, reason, message, now)


def unsay(
    status: JobStatus, kind: ConditionType, reason: str, message: str, now: float
) -> JobStatus:
    """The status once a condition no longer holds; what never held stays unsaid.

    >>> unsay(JobStatus(), ConditionType.RUNNING, "Suspended", "", 1.0) == JobStatus()
    True
    """
    if not status.holds(kind):
        return status
    return _put(status, kind, False, reason, message, now)


def _put(
    status: JobStatus, kind: ConditionType, holds: bool, reason: str, message: str, now: float
) -> JobStatus:
    old = status.condition(kind)
    if old is not None and old.status is holds and old.reason == reason:
        return status
    # A wall clock may step back; what is recorded never does.
    time = now if old is None else max(now, old.last_update)
    moved = old is None or old.status is not holds
    new = Condition(
        type=kind,
        status=holds,
        reason=reason,
        message=message,
        last_update=time,
        last_transition=time if moved or old is None else old.last_transition,
    )
    others = [each for each in status.conditions if each.type is not kind]
    ordered = tuple(sorted([*others, new], key=lambda each: _ORDER[each.type]))
    return msgspec.structs.replace(status, conditions=ordered)

"""Sets and clears the conditions of a job, such as `Running` or `Failed`, each with a reason."""

from __future__ import annotations

import msgspec

from windlass.model.status import Condition, ConditionType, JobStatus

_ORDER = {kind: index for index, kind in enumerate(ConditionType)}

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
REPEATED_REASON = "RepeatedFailure"
DEADLINE_REASON = "DeadlineExceeded"
INVALID_REASON = "InvalidSpec"  # the backend can never provide the requested resources
INTERRUPTED_REASON = "Interrupted"  # the user interrupted the program, so nothing failed


def set_condition(
    status: JobStatus, kind: ConditionType, reason: str, message: str, now: float
) -> JobStatus:
    """Return the status with a condition set. A repeated call returns the status unchanged.

    >>> once = set_condition(JobStatus(), ConditionType.RUNNING, "ReplicasRunning", "", 1.0)
    >>> once.holds(ConditionType.RUNNING)
    True
    >>> set_condition(once, ConditionType.RUNNING, "ReplicasRunning", "", 2.0) is once
    True
    """
    return _put(status, kind, True, reason, message, now)


def clear_condition(
    status: JobStatus, kind: ConditionType, reason: str, message: str, now: float
) -> JobStatus:
    """Return the status with a condition cleared.

    A condition that was never set is not added to the status.

    >>> clear_condition(JobStatus(), ConditionType.RUNNING, "Suspended", "", 1.0) == JobStatus()
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
    # The wall clock may be set back, but recorded times never decrease.
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
    others = [condition for condition in status.conditions if condition.type is not kind]
    ordered = tuple(sorted([*others, new], key=lambda condition: _ORDER[condition.type]))
    return msgspec.structs.replace(status, conditions=ordered)

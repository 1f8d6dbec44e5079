"""Converts a job's engine status to the `status` field of its object. All functions are pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windlass.kube.timestamp import time_text
from windlass.model.job import JobSpec
from windlass.model.status import Condition, ConditionType, JobStatus, Phase, Replica
from windlass.operator.job_kinds import JobKind
from windlass.operator.names import job_labels

_LONGEST_MESSAGE = 4000


def build_status(
    kind: JobKind, name: str, spec: JobSpec, status: JobStatus, replicas: Sequence[Replica]
) -> dict[str, Any]:
    """Return the value of an object's `status` field."""
    result: dict[str, Any] = {
        "conditions": [_condition(condition, status) for condition in _in_order(status.conditions)],
        "replicaStatuses": {
            kind.type_of(role.name): _counts(kind, name, role.name, status, replicas)
            for role in spec.roles
        },
    }
    for field, moment in (
        ("startTime", status.start_time),
        ("completionTime", status.completion_time),
        ("lastReconcileTime", status.last_reconcile_time),
    ):
        if moment is not None:
            result[field] = time_text(moment)
    return result


def is_same_status(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two statuses are equal, apart from `lastReconcileTime`."""
    return _essence(one) == _essence(other)


def _in_order(conditions: Sequence[Condition]) -> list[Condition]:
    """Sort conditions so that the newest true condition comes last.

    Clients take the last condition as the state of the job.
    """
    return sorted(conditions, key=lambda condition: (condition.status, condition.last_transition))


def failure_message(status: JobStatus, message: str) -> str:
    """Return a failure message that names the replica that caused the failure.

    The engine omits this name if a job has a single replica, but people who read the object always
    need it.

    >>> from windlass.model.status import ReplicaId
    >>> failure_message(JobStatus(decisive=ReplicaId("master", 0, 1)), "exit code 3")
    'master-0: exit code 3'
    """
    which = status.decisive
    if which is None:
        return message
    name = f"{which.role}-{which.index}"
    return message if f"{name} (attempt {which.attempt})" in message else f"{name}: {message}"


def _condition(condition: Condition, status: JobStatus) -> dict[str, Any]:
    is_failure = condition.type is ConditionType.FAILED and condition.status
    message = failure_message(status, condition.message) if is_failure else condition.message
    fields = {
        "type": condition.type.value,
        "status": "True" if condition.status else "False",
        "reason": condition.reason,
        "message": message[:_LONGEST_MESSAGE],
        "lastUpdateTime": time_text(condition.last_update),
        "lastTransitionTime": time_text(condition.last_transition),
    }
    # Some API servers reject fields with an empty text.
    return {field: text for field, text in fields.items() if text}


def _counts(
    kind: JobKind, name: str, role: str, status: JobStatus, replicas: Sequence[Replica]
) -> dict[str, Any]:
    """Count the active, succeeded and failed replicas of a role.

    Replicas that are being deleted do not count as active or failed.
    """
    succeeded = {
        replica.index
        for replica in status.replicas
        if replica.role == role and replica.phase is Phase.SUCCEEDED
    }
    counts = {"active": 0, "succeeded": len(succeeded), "failed": 0}
    for replica in replicas:
        if replica.id.role != role or replica.id.index in succeeded:
            continue
        if replica.phase is Phase.FAILED and not replica.deleting:
            counts["failed"] += 1
        elif replica.phase is Phase.SUCCEEDED:
            counts["succeeded"] += 1
        elif not replica.deleting and not replica.phase.is_final:
            counts["active"] += 1
    labels = job_labels(kind, name) | {"training.kubeflow.org/replica-type": role}
    selector = ",".join(f"{label}={text}" for label, text in sorted(labels.items()))
    return {**{state: count for state, count in counts.items() if count}, "selector": selector}


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    return {
        field: value for field, value in status.items() if field != "lastReconcileTime" and value
    }

"""Projecting: what is concluded of a job, as the status of its object says it. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from windlass.model.job import JobSpec
from windlass.model.status import Condition, ConditionType, JobStatus, Phase, Replica
from windlass.operator.jobkinds import JobKind
from windlass.operator.names import job_labels

_LONGEST_MESSAGE = 4000


def status_of(
    kind: JobKind, name: str, spec: JobSpec, status: JobStatus, replicas: Sequence[Replica]
) -> dict[str, Any]:
    """The status of an object."""
    said: dict[str, Any] = {
        "conditions": [_condition(each, status) for each in _in_order(status.conditions)],
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
            said[field] = time_text(moment)
    return said


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two statuses say the same: when a job was last looked at is no news by itself."""
    return _essence(one) == _essence(other)


def time_text(moment: float) -> str:
    """Seconds since the epoch, as the API writes a point in time.

    >>> time_text(1794825000.9)
    '2026-11-16T10:30:00Z'
    """
    when = datetime.fromtimestamp(int(moment), timezone.utc)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _in_order(conditions: Sequence[Condition]) -> list[Condition]:
    """What holds now is last, the newest at the very end: clients read the state from there."""
    return sorted(conditions, key=lambda each: (each.status, each.last_transition))


def told_of(status: JobStatus, message: str) -> str:
    """What is said of how a job failed, with the name of the replica by which it did.

    Of one that is alone the engine says no name; here nobody knows how many there are.

    >>> from windlass.model.status import ReplicaId
    >>> told_of(JobStatus(decisive=ReplicaId("master", 0, 1)), "exit code 3")
    'master-0: exit code 3'
    """
    which = status.decisive
    if which is None:
        return message
    name = f"{which.role}-{which.index}"
    return message if f"{name} (attempt {which.attempt})" in message else f"{name}: {message}"


def _condition(condition: Condition, status: JobStatus) -> dict[str, Any]:
    is_failure = condition.type is ConditionType.FAILED and condition.status
    message = told_of(status, condition.message) if is_failure else condition.message
    said = {
        "type": condition.type.value,
        "status": "True" if condition.status else "False",
        "reason": condition.reason,
        "message": message[:_LONGEST_MESSAGE],
        "lastUpdateTime": time_text(condition.last_update),
        "lastTransitionTime": time_text(condition.last_transition),
    }
    # Some API servers take an empty text for none, and refuse it.
    return {field: text for field, text in said.items() if text}


def _counts(
    kind: JobKind, name: str, role: str, status: JobStatus, replicas: Sequence[Replica]
) -> dict[str, Any]:
    """How many of a role are active, have succeeded, have failed; those being deleted are none."""
    succeeded = {
        each.index
        for each in status.replicas
        if each.role == role and each.phase is Phase.SUCCEEDED
    }
    counts = {"active": 0, "succeeded": len(succeeded), "failed": 0}
    for each in replicas:
        if each.id.role != role or each.id.index in succeeded:
            continue
        if each.phase is Phase.FAILED and not each.deleting:
            counts["failed"] += 1
        elif each.phase is Phase.SUCCEEDED:
            counts["succeeded"] += 1
        elif not each.deleting and not each.phase.is_final:
            counts["active"] += 1
    labels = job_labels(kind, name) | {"training.kubeflow.org/replica-type": role}
    selector = ",".join(f"{label}={text}" for label, text in sorted(labels.items()))
    return {**{word: count for word, count in counts.items() if count}, "selector": selector}


def _essence(status: dict[str, Any]) -> dict[str, Any]:
    return {field: said for field, said in status.items() if field != "lastReconcileTime" and said}

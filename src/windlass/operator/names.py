"""Names and labels for a job's pods and services."""

from __future__ import annotations

import re

from windlass.model.status import ReplicaId
from windlass.operator.job_kinds import JobKind

_PREFIX = "training.kubeflow.org"
JOB_NAME = f"{_PREFIX}/job-name"
OPERATOR_NAME = f"{_PREFIX}/operator-name"
REPLICA_TYPE = f"{_PREFIX}/replica-type"
REPLICA_INDEX = f"{_PREFIX}/replica-index"
JOB_ROLE = f"{_PREFIX}/job-role"
ATTEMPT = "windlass.dev/attempt"
MEMORY = "windlass.dev/memory"  # an annotation on the job object; see `jobs/status_annotation.py`

LONGEST_NAME = 63  # characters in a service name or a label value
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")


def replica_name(job: str, role: str, index: int) -> str:
    """Return the name that a replica's pod and service share.

    >>> replica_name("mnist", "worker", 0)
    'mnist-worker-0'
    """
    return f"{job}-{role}-{index}"


def address_of(job: str, namespace: str, role: str, index: int, port: int) -> str:
    """Return the address of a replica, which is the same for all its attempts.

    >>> address_of("mnist", "lab", "worker", 0, 2222)
    'mnist-worker-0.lab.svc:2222'
    """
    return f"{replica_name(job, role, index)}.{namespace}.svc:{port}"


def job_labels(kind: JobKind, job: str) -> dict[str, str]:
    """Return the labels common to all pods and services of a job."""
    return {JOB_NAME: job, OPERATOR_NAME: kind.operator_name}


def replica_labels(kind: JobKind, job: str, role: str, index: int) -> dict[str, str]:
    """Return the labels common to all pods and the service of a replica."""
    return {**job_labels(kind, job), REPLICA_TYPE: role, REPLICA_INDEX: str(index)}


def replica_of(labels: dict[str, str]) -> ReplicaId | None:
    """Return the attempt that the labels identify, or None if they identify no replica.

    A pod that another operator created has no attempt label and counts as the first attempt.

    >>> replica_of({REPLICA_TYPE: "worker", REPLICA_INDEX: "1", ATTEMPT: "2"})
    ReplicaId(role='worker', index=1, attempt=2)
    """
    role, index, attempt = (
        labels.get(REPLICA_TYPE, ""),
        labels.get(REPLICA_INDEX, ""),
        labels.get(ATTEMPT, "1"),
    )
    if not role or not _is_number(index) or not _is_number(attempt):
        return None
    return ReplicaId(role.lower(), int(index), int(attempt))


def name_problem(job: str, longest: str) -> str:
    """Return why a job cannot have this name, or "" if it can.

    Services are named after the job, so the rules for service names apply.

    >>> name_problem("mnist", "mnist-worker-0")
    ''
    >>> name_problem("2nd-try", "2nd-try-worker-0")
    "metadata.name: '2nd-try' must start with a letter, and may have only lowercase \
letters, digits and -"
    """
    if not _SERVICE.match(job):
        return (
            f"metadata.name: {job!r} must start with a letter, and may have only lowercase "
            "letters, digits and -"
        )
    if len(longest) > LONGEST_NAME:
        return (
            f"metadata.name: {job!r} is too long: its service {longest!r} would have "
            f"{len(longest)} characters, of {LONGEST_NAME} at most"
        )
    return ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()

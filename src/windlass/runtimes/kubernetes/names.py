"""Names and labels of a job's objects in a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from windlass.model.status import ReplicaId

DOMAIN = "windlass.dev"
UID, TRIAL = f"{DOMAIN}/uid", f"{DOMAIN}/trial"
ROLE, INDEX, ATTEMPT = f"{DOMAIN}/role", f"{DOMAIN}/index", f"{DOMAIN}/attempt"
SLICE = f"{DOMAIN}/slice"  # of pods that have the machines of one TPU together: which TPU
HOME = f"{DOMAIN}/home"  # which server's it is: several may share a namespace
MANAGED_BY, WINDLASS = "app.kubernetes.io/managed-by", "windlass"
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP = "kueue.x-k8s.io/pod-group-name"
GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
PORT = 29500  # at which each replica is met by the others: every pod has an address of its own
_LONGEST = 63  # of a name in DNS
_LONGEST_ATTEMPT = 6  # with its dash; a pod's name is its host's, too


def base_of(trial_id: int, uid: str) -> str:
    """What all names of a job begin with; the name of its Secret.

    >>> base_of(7, "0123456789abcdef0123456789abcdef")
    'wl-7-01234567'
    """
    return f"wl-{trial_id}-{uid[:8]}"


def service_name(base: str, role: str, index: int) -> str:
    """The name that a replica keeps over its attempts; a role of a long name is cut short.

    >>> service_name("wl-7-01234567", "worker", 2)
    'wl-7-01234567-worker-2'
    >>> len(service_name("wl-1234567-01234567", "w" * 40, 9999))
    57
    """
    name = f"{base}-{role}-{index}"
    most = _LONGEST - _LONGEST_ATTEMPT
    if len(name) <= most:
        return name
    mark = hashlib.sha256(role.encode()).hexdigest()[:6]
    kept = most - len(base) - len(mark) - len(str(index)) - 3
    return f"{base}-{role[:kept].rstrip('-')}-{mark}-{index}"


def slice_name(base: str, role: str) -> str:
    """What the pods of a role are called that have the machines of one TPU: like its first.

    >>> slice_name("wl-7-01234567", "worker")
    'wl-7-01234567-worker-0'
    """
    return service_name(base, role, 0)


def pod_name(base: str, replica: ReplicaId) -> str:
    """The name of the pod of an attempt.

    >>> pod_name("wl-7-01234567", ReplicaId("worker", 2, 1))
    'wl-7-01234567-worker-2-1'
    """
    return f"{service_name(base, replica.role, replica.index)}-{replica.attempt}"


def address_of(base: str, namespace: str, role: str, index: int) -> str:
    """Where the others reach a replica.

    >>> address_of("wl-7-01234567", "lab", "worker", 2)
    'wl-7-01234567-worker-2.lab:29500'
    """
    return f"{host_of(base, namespace, role, index)}:{PORT}"


def host_of(base: str, namespace: str, role: str, index: int) -> str:
    """The name of a replica's host, for those who have ports of their own.

    >>> host_of("wl-7-01234567", "lab", "worker", 2)
    'wl-7-01234567-worker-2.lab'
    """
    return f"{service_name(base, role, index)}.{namespace}"


def job_labels(uid: str, trial_id: int, home: str) -> dict[str, str]:
    """By what everything of a job is found."""
    return {MANAGED_BY: WINDLASS, HOME: home, UID: uid, TRIAL: str(trial_id)}


def replica_labels(role: str, index: int) -> dict[str, str]:
    """By what a replica is found among those of its job."""
    return {ROLE: role, INDEX: str(index)}


def replica_of(labels: Mapping[str, str]) -> ReplicaId | None:
    """Which attempt of which replica a pod is of; none if it does not say.

    >>> replica_of({ROLE: "worker", INDEX: "2", ATTEMPT: "1"})
    ReplicaId(role='worker', index=2, attempt=1)
    """
    try:
        return ReplicaId(labels[ROLE], int(labels[INDEX]), int(labels[ATTEMPT]))
    except (KeyError, ValueError):
        return None

"""Names and labels for a job's objects in a cluster."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from windlass.model.status import ReplicaId

DOMAIN = "windlass.dev"
UID, TRIAL = f"{DOMAIN}/uid", f"{DOMAIN}/trial"
ROLE, INDEX, ATTEMPT = f"{DOMAIN}/role", f"{DOMAIN}/index", f"{DOMAIN}/attempt"
SLICE = f"{DOMAIN}/slice"  # the TPU slice that a pod uses
HOME = f"{DOMAIN}/home"  # the server home that owns the object
MANAGED_BY, WINDLASS = "app.kubernetes.io/managed-by", "windlass"
QUEUE = "kueue.x-k8s.io/queue-name"
GROUP = "kueue.x-k8s.io/pod-group-name"
GROUP_SIZE = "kueue.x-k8s.io/pod-group-total-count"
PORT = 29500  # the port of every replica; each pod has its own IP address
_LONGEST = 63  # characters in a DNS name
_LONGEST_ATTEMPT = 6  # characters reserved for the dash and attempt number in a pod name


def base_of(trial_id: int, uid: str) -> str:
    """Return the name prefix of a job's objects, which is also the name of its Secret.

    >>> base_of(7, "0123456789abcdef0123456789abcdef")
    'wl-7-01234567'
    """
    return f"wl-{trial_id}-{uid[:8]}"


def service_name(base: str, role: str, index: int) -> str:
    """Return the name of a replica's service, which all its attempts share.

    A long role name is shortened.

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
    """Return the name that all pods of a TPU slice share: the name of the role's first service.

    >>> slice_name("wl-7-01234567", "worker")
    'wl-7-01234567-worker-0'
    """
    return service_name(base, role, 0)


def pod_name(base: str, replica: ReplicaId) -> str:
    """Return the name of an attempt's pod.

    >>> pod_name("wl-7-01234567", ReplicaId("worker", 2, 1))
    'wl-7-01234567-worker-2-1'
    """
    return f"{service_name(base, replica.role, replica.index)}-{replica.attempt}"


def address_of(base: str, namespace: str, role: str, index: int) -> str:
    """Return the address at which a job's other replicas reach a replica.

    >>> address_of("wl-7-01234567", "lab", "worker", 2)
    'wl-7-01234567-worker-2.lab:29500'
    """
    return f"{host_of(base, namespace, role, index)}:{PORT}"


def host_of(base: str, namespace: str, role: str, index: int) -> str:
    """Return a replica's host name, for frameworks that choose their own ports.

    >>> host_of("wl-7-01234567", "lab", "worker", 2)
    'wl-7-01234567-worker-2.lab'
    """
    return f"{service_name(base, role, index)}.{namespace}"


def job_labels(uid: str, trial_id: int, home: str) -> dict[str, str]:
    """Return the labels that all of a job's objects have."""
    return {MANAGED_BY: WINDLASS, HOME: home, UID: uid, TRIAL: str(trial_id)}


def replica_labels(role: str, index: int) -> dict[str, str]:
    """Return the labels that distinguish a replica from its job's other replicas."""
    return {ROLE: role, INDEX: str(index)}


def replica_of(labels: Mapping[str, str]) -> ReplicaId | None:
    """Return the attempt that a pod's labels identify, or None if labels are missing.

    >>> replica_of({ROLE: "worker", INDEX: "2", ATTEMPT: "1"})
    ReplicaId(role='worker', index=2, attempt=1)
    """
    try:
        return ReplicaId(labels[ROLE], int(labels[INDEX]), int(labels[ATTEMPT]))
    except (KeyError, ValueError):
        return None

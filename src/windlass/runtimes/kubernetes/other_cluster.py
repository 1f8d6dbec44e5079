"""Finds jobs that are in a different cluster than the one to which the server is connected.

A server may restart with a different KUBECONFIG. It must not assume that pods were deleted merely
because it cannot see them, or their programs would run twice. A job record therefore identifies the
job's cluster by the address and certificate authority of the cluster's API. If these differ from
those of the connected cluster, the server first looks for the job's Secret, which owns all of the
job's other objects. Until the result is known, the server changes no attempt and creates nothing. A
job that never started is in no cluster and can start in any cluster.
"""

from __future__ import annotations

import math
import threading
import time

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import labels_of
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes.objects import api_objects
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord

_NOT_FOUND = 404
_NOT_ALLOWED = (401, 403)  # may be temporary while a cluster starts
_FRESH = 30.0  # seconds until the server repeats a request that a cluster refused


class OtherClusters:
    """Determines whether a job is in the connected cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Whether a job is in another cluster, and until when this result is valid, by job and
        # cluster.
        self._cache: dict[tuple[str, str], tuple[bool, float]] = {}

    def is_elsewhere(self, record: JobRecord, connection: Connection) -> bool | None:
        """Return whether a job is in another cluster, or None if `check` must find out first."""
        if not record.is_begun or record.server == connection.address:
            return False
        with self._lock:
            is_elsewhere, until = self._cache.get((record.uid, connection.address), (None, 0.0))
        return is_elsewhere if time.monotonic() < until else None

    def check(self, record: JobRecord, connection: Connection) -> bool:
        """Return whether a job is in another cluster. If necessary, query the connected cluster."""
        cached = self.is_elsewhere(record, connection)
        if cached is not None:
            return cached
        until = math.inf
        try:
            owner = api_objects.find(connection, api_objects.SECRETS, record.namespace, record.base)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, *_NOT_ALLOWED):
                raise
            owner = None
            if error.status in _NOT_ALLOWED:
                until = time.monotonic() + _FRESH
        is_elsewhere = owner is None or labels_of(owner).get(pod_names.UID) != record.uid
        with self._lock:
            self._cache[record.uid, connection.address] = (is_elsewhere, until)
        return is_elsewhere


HOW_TO_CONNECT_THERE = (
    "stop the server (windlass server stop), and start it with its previous KUBECONFIG"
)


def elsewhere_message(record: JobRecord, server: str) -> str:
    """Return the message for a job that is not in the connected cluster at `server`.

    >>> elsewhere_message(
    ...     JobRecord(uid="", trial_id=1, namespace="", base="", home="", server="https://a"), "b"
    ... )
    'its pods are in the cluster at https://a, but this server uses b'
    """
    there = record.server.partition(" ")[0]
    if there == server:
        return f"its pods are in another cluster than the one at {server}"
    return f"its pods are in the cluster at {there}, but this server uses {server}"


def abandoned_message(record: JobRecord, why: str) -> str:
    """Return the message for a job that ends although its pods may continue to run.

    >>> record = JobRecord(uid="c0ffee", trial_id=1, namespace="lab", base="", home="", server="a")
    >>> abandoned_message(record, "https://a is away")
    'https://a is away. Its pods may still run there, and are deleted when ...; to delete ...'
    """
    later = ", and are deleted when this server reaches that cluster again" if record.server else ""
    command = (
        f"kubectl --namespace {record.namespace} delete pods,services,secrets "
        f"--selector {pod_names.UID}={record.uid}"
    )
    return (
        f"{why.rstrip('.')}. Its pods may still run there{later}; to delete them "
        f"yourself: {command}"
    )

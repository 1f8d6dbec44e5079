"""Builds a replica's pod and service. All functions are pure."""

from __future__ import annotations

import copy
from typing import Any

from windlass.kube.api.resource_kinds import Object
from windlass.model.status import ReplicaId
from windlass.operator.jobs.from_object import Translation
from windlass.operator.names import ATTEMPT, JOB_ROLE, replica_labels, replica_name
from windlass.operator.pods.replica_env import DEFAULTS, build_environment


def owner_reference(made_from: Translation) -> Object:
    """Return the owner reference that all pods and services of a job have."""
    return {
        "apiVersion": made_from.kind.kind.api_version,
        "kind": made_from.kind.name,
        "name": made_from.job.name,
        "uid": made_from.job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def make_pod(made_from: Translation, replica: ReplicaId) -> Object:
    """Return the pod for an attempt, built from its role's template.

    The pod's name, labels, owner and environment are added to the template.
    """
    pod: Object = copy.deepcopy(made_from.templates[replica.role])
    metadata = pod.get("metadata") or {}
    labels = {
        **(metadata.get("labels") or {}),
        **_labels(made_from, replica),
        ATTEMPT: str(replica.attempt),
    }
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    pod["metadata"] = {
        "name": replica_name(made_from.job.name, replica.role, replica.index),
        "namespace": made_from.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(made_from)],
    }
    for kept in ("annotations", "finalizers"):
        if metadata.get(kept):
            pod["metadata"][kept] = metadata[kept]
    spec = pod["spec"]
    # The kubelet must not restart containers, because the operator counts and delays restarts.
    spec["restartPolicy"] = "Never"
    if made_from.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = made_from.priority_class
    container = next(
        candidate
        for candidate in spec["containers"]
        if candidate.get("name") == made_from.kind.container
    )
    _equip(container, made_from, replica)
    return pod


def check_pods(made_from: Translation) -> None:
    """Build a pod for each role, so that an invalid job raises its errors early."""
    for role in made_from.job.spec.roles:
        make_pod(made_from, ReplicaId(role.name, 0, 1))


def make_service(made_from: Translation, replica: ReplicaId) -> Object:
    """Return a replica's headless service, which gives all its attempts the same address."""
    labels = _labels(made_from, replica)
    selector = {name: text for name, text in labels.items() if name != JOB_ROLE}
    port = made_from.ports[replica.role]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": replica_name(made_from.job.name, replica.role, replica.index),
            "namespace": made_from.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(made_from)],
        },
        "spec": {
            "clusterIP": "None",
            # Replicas must be able to resolve each other's names and their own before they are
            # ready.
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": made_from.kind.port_name, "port": port, "targetPort": port}],
        },
    }


def _labels(made_from: Translation, replica: ReplicaId) -> dict[str, str]:
    labels = replica_labels(made_from.kind, made_from.job.name, replica.role, replica.index)
    if replica.role == made_from.leader and replica.index == 0:
        labels[JOB_ROLE] = "master"
    return labels


def _equip(container: dict[str, Any], made_from: Translation, replica: ReplicaId) -> None:
    """Add the port, the environment and the termination message policy to a container."""
    ports = container.setdefault("ports", None) or []
    if not any(existing.get("name") == made_from.kind.port_name for existing in ports):
        port = {"name": made_from.kind.port_name, "containerPort": made_from.ports[replica.role]}
        ports = [*ports, port]
    container["ports"] = ports
    variables = build_environment(made_from, replica)
    own = [
        variable for variable in container.get("env") or () if variable.get("name") not in variables
    ]
    own_names = {variable.get("name") for variable in own}
    variables |= {name: value for name, value in DEFAULTS.items() if name not in own_names}
    ours = [{"name": name, "value": value} for name, value in variables.items()]
    # Our variables come first, so that user-supplied values can refer to them, as in $(RANK).
    container["env"] = [*ours, *own]
    # With this policy, the pod's status contains its last output, which the failure message shows.
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")

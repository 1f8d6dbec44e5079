"""Making: the pod and the service of a replica, as the API is to have them. Pure functions."""

from __future__ import annotations

import copy
from typing import Any

from windlass.kube.kinds import Object
from windlass.model.status import ReplicaId
from windlass.operator.environment import DEFAULTS, environment_of
from windlass.operator.names import ATTEMPT, JOB_ROLE, replica_labels, replica_name
from windlass.operator.translating import Translation


def owner_of(made_from: Translation) -> Object:
    """The reference by which what a job made goes with it."""
    return {
        "apiVersion": made_from.kind.kind.api_version,
        "kind": made_from.kind.name,
        "name": made_from.job.name,
        "uid": made_from.job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def make_pod(made_from: Translation, replica: ReplicaId) -> Object:
    """The pod of an attempt: its template, with a name, labels, an owner and an environment."""
    pod: Object = copy.deepcopy(made_from.templates[replica.role])
    given = pod.get("metadata") or {}
    labels = {
        **(given.get("labels") or {}),
        **_labels(made_from, replica),
        ATTEMPT: str(replica.attempt),
    }
    pod["apiVersion"], pod["kind"] = "v1", "Pod"
    pod["metadata"] = {
        "name": replica_name(made_from.job.name, replica.role, replica.index),
        "namespace": made_from.namespace,
        "labels": labels,
        "ownerReferences": [owner_of(made_from)],
    }
    for kept in ("annotations", "finalizers"):
        if given.get(kept):
            pod["metadata"][kept] = given[kept]
    spec = pod["spec"]
    # Restarts are ours to count and to delay: a container that starts by itself would do neither.
    spec["restartPolicy"] = "Never"
    if made_from.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = made_from.priority_class
    container = next(
        each for each in spec["containers"] if each.get("name") == made_from.kind.container
    )
    _equip(container, made_from, replica)
    return pod


def make_service(made_from: Translation, replica: ReplicaId) -> Object:
    """The headless service of a replica: its address, whichever attempt is behind it."""
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
            "ownerReferences": [owner_of(made_from)],
        },
        "spec": {
            "clusterIP": "None",
            # They look for each other, and for themselves, before they are ready.
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
    """Give the container what the others of its job expect of it."""
    ports = container.setdefault("ports", None) or []
    if not any(each.get("name") == made_from.kind.port_name for each in ports):
        port = {"name": made_from.kind.port_name, "containerPort": made_from.ports[replica.role]}
        ports = [*ports, port]
    container["ports"] = ports
    variables = environment_of(made_from, replica)
    own = [each for each in container.get("env") or () if each.get("name") not in variables]
    given = {each.get("name") for each in own}
    variables |= {name: value for name, value in DEFAULTS.items() if name not in given}
    ours = [{"name": name, "value": value} for name, value in variables.items()]
    # Ours come first: a value of the user's may refer to them, as $(RANK).
    container["env"] = [*ours, *own]
    # What it said last is then in the pod's status, and so in the message of a failure.
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")

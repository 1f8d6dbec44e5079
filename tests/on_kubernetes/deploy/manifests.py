"""The manifests of `deploy/`, applied to a cluster without them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import eventually
from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import PODS, Kind, Object, labels_of
from windlass.model.errors import KubernetesError

DEPLOY = Path(__file__).parents[3] / "deploy"
NAMED = "image: windlass:latest"
"""The image in the manifests, which a user replaces."""

_RBAC = "rbac.authorization.k8s.io"
_KINDS = {
    kind.name: kind
    for kind in (
        Kind("", "v1", "namespaces", "Namespace"),
        Kind("", "v1", "serviceaccounts", "ServiceAccount"),
        Kind("", "v1", "services", "Service"),
        Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
        Kind("", "v1", "persistentvolumes", "PersistentVolume"),
        Kind(_RBAC, "v1", "roles", "Role"),
        Kind(_RBAC, "v1", "rolebindings", "RoleBinding"),
        Kind(_RBAC, "v1", "clusterroles", "ClusterRole"),
        Kind(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding"),
        Kind("apps", "v1", "deployments", "Deployment"),
    )
}
_OF_THE_CLUSTER = ("Namespace", "PersistentVolume", "ClusterRole", "ClusterRoleBinding")


def manifests(name: str, image: str) -> list[Object]:
    """The objects of a file of `deploy/`, with that image."""
    text = (DEPLOY / name).read_text()
    assert text.count(NAMED) == 1, f"{name} names one image"
    return list(yaml.safe_load_all(text.replace(NAMED, f"image: {image}")))


def bring(connection: Connection, things: Sequence[Object], namespace: str = "") -> None:
    """Create all objects in the cluster."""
    for thing in things:
        connection.request("POST", _path(thing, namespace).rpartition("/")[0], thing)


def apply_dry(connection: Connection, thing: Object, namespace: str) -> Object:
    """The result of a dry-run server-side apply in a namespace."""
    moved = {**thing, "metadata": {**thing["metadata"]}}
    if thing["kind"] not in _OF_THE_CLUSTER:
        moved["metadata"]["namespace"] = namespace
    taken: Object = connection.request(
        "PATCH",
        _path(moved, namespace),
        moved,
        query={"fieldManager": "test", "dryRun": "All"},
        content_type="application/apply-patch+yaml",
    )
    return taken


def remove(connection: Connection, things: Sequence[Object], namespace: str = "") -> None:
    """Delete all objects, the last first, and wait for a namespace, whose name other tests need."""
    for thing in reversed(things):
        try:
            body = {"propagationPolicy": "Background", "gracePeriodSeconds": 0}
            connection.request("DELETE", _path(thing, namespace), body)
        except KubernetesError as error:
            if error.status != 404:
                raise
    for thing in things:
        if thing["kind"] == "Namespace":
            eventually(lambda thing=thing: is_gone(connection, thing), f"{thing['kind']} is gone")


def wait_available(connection: Connection, namespace: str, name: str, number: int) -> None:
    """Return when a deployment has this many pods, and all of them are ready."""

    def is_available() -> bool:
        pods = pods_of(connection, namespace, name)
        return len(pods) == number and all(map(_is_ready, pods))

    try:
        eventually(is_available, f"{name} is available", patience=240)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{_status_and_log(connection, namespace, name)}") from None


def pods_of(connection: Connection, namespace: str, name: str) -> list[Object]:
    """The pods of a deployment that are not being deleted."""
    pods = connection.request("GET", PODS.path(namespace))["items"]
    return [
        pod
        for pod in pods
        if labels_of(pod).get("app.kubernetes.io/name") == name
        and "deletionTimestamp" not in pod["metadata"]
    ]


def logs_of(connection: Connection, namespace: str, pod: str) -> str:
    """The log of a pod so far."""
    return str(connection.open("GET", PODS.path(namespace, pod, "log")).read().decode())


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(
        (condition["type"], condition["status"]) == ("Ready", "True") for condition in conditions
    )


def _status_and_log(connection: Connection, namespace: str, name: str) -> str:
    statuses: list[Any] = []
    for pod in pods_of(connection, namespace, name):
        statuses.append(pod["status"])
        try:
            statuses.append(logs_of(connection, namespace, pod["metadata"]["name"]))
        except KubernetesError as error:
            statuses.append(error)
    return "\n".join(map(str, statuses))


def _path(thing: Object, namespace: str) -> str:
    metadata = thing["metadata"]
    where = metadata.get("namespace", namespace)
    kind = _KINDS[thing["kind"]]
    return kind.path("" if thing["kind"] in _OF_THE_CLUSTER else where, metadata["name"])


def is_gone(connection: Connection, thing: Object) -> bool:
    """Return whether no such object exists in the cluster any more."""
    try:
        connection.request("GET", _path(thing, ""))
    except KubernetesError as error:
        return error.status == 404
    return False

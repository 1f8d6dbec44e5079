"""TFJob and PyTorchJob objects for tests, from a few arguments."""

from __future__ import annotations

from typing import Any

CONTAINERS = {"TFJob": "tensorflow", "PyTorchJob": "pytorch"}
FIELDS = {"TFJob": "tfReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs"}


def replicas(kind: str, number: int | None = 1, **fields: Any) -> dict[str, Any]:
    """The spec of one role; `container` has fields of its container."""
    container = {"name": CONTAINERS[kind], "image": "python:3.11", **fields.pop("container", {})}
    template = {"spec": {"containers": [container], **fields.pop("pod", {})}}
    role: dict[str, Any] = {"template": template, **fields}
    if number is not None:
        role["replicas"] = number
    return role


def manifest(kind: str, name: str = "train", **roles: Any) -> dict[str, Any]:
    """An object with this many replicas of each role, or with a spec for each role.

    `manifest("TFJob", Worker=2, PS=1, runPolicy={"backoffLimit": 0})`
    """
    spec: dict[str, Any] = {}
    for field in list(roles):
        if field[0].islower() and field not in ("worker", "master", "chief", "ps", "evaluator"):
            spec[field] = roles.pop(field)
    spec[FIELDS[kind]] = {
        role: replicas(kind, role_object) if isinstance(role_object, int) else role_object
        for role, role_object in roles.items()
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "lab", "uid": "uid-1", "generation": 1},
        "spec": spec,
    }

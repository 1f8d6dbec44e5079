"""Lists in a pod whose things are told apart by fields of theirs, as the cluster tells them apart.

All other lists have an order and nothing else: nobody can tell which thing of one is which of
another.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

_BY_NAME = ("containers", "initContainers", "env", "volumes", "imagePullSecrets")

# By the name of a list: the field that each of its things has, and what it holds.
KEYS: dict[str, tuple[str, type]] = {
    **dict.fromkeys(_BY_NAME, ("name", str)),
    "volumeMounts": ("mountPath", str),
    "ports": ("containerPort", int),
}


def identity(field: str, thing: Any) -> Hashable | None:
    """What tells a thing of a list apart from the others; none if nothing does.

    >>> identity("volumeMounts", {"name": "data", "mountPath": "/train"})
    '/train'
    >>> identity("ports", {"containerPort": 53}), identity("tolerations", {"key": "gpu"})
    ((53, 'TCP'), None)
    """
    if field not in KEYS or not isinstance(thing, Mapping):
        return None
    name, kind = KEYS[field]
    value = thing.get(name)
    if not isinstance(value, kind):
        return None
    return (value, str(thing.get("protocol") or "TCP")) if field == "ports" else value

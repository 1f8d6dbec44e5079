"""The lists in a pod whose entries have a key field, as in the Kubernetes API.

The entries of all other lists have no key, so two such lists cannot be merged entry by entry.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

_BY_NAME = ("containers", "initContainers", "env", "volumes", "imagePullSecrets")

# Maps each list's name to its entries' key field and the field's type.
KEYS: dict[str, tuple[str, type]] = {
    **dict.fromkeys(_BY_NAME, ("name", str)),
    "volumeMounts": ("mountPath", str),
    "ports": ("containerPort", int),
}


def identity(field: str, obj: Any) -> Hashable | None:
    """Return the key of an entry in the list `field`, or None if this list has no key field.

    >>> identity("volumeMounts", {"name": "data", "mountPath": "/train"})
    '/train'
    >>> identity("ports", {"containerPort": 53}), identity("tolerations", {"key": "gpu"})
    ((53, 'TCP'), None)
    """
    if field not in KEYS or not isinstance(obj, Mapping):
        return None
    name, kind = KEYS[field]
    value = obj.get(name)
    if not isinstance(value, kind):
        return None
    return (value, str(obj.get("protocol") or "TCP")) if field == "ports" else value

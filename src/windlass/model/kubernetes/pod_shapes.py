"""Checks that a pod patch has the expected types in the fields that Windlass reads.

The cluster validates all other fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.errors import shown
from windlass.model.kubernetes.pod_lists import KEYS

_OF_POD = ("containers", "initContainers", "volumes", "imagePullSecrets")
_OF_CONTAINER = ("env", "volumeMounts", "ports")
_CONTAINERS = ("containers", "initContainers")
_TEXTS = ("labels", "annotations")
_KINDS = {str: "string", int: "number"}


def shape_flaw(patch: Mapping[str, Any]) -> str:
    """Return the path and problem of the first field with a wrong type, or "" if all are right.

    >>> shape_flaw({"metadata": {"labels": ["a"]}})
    "metadata.labels: ['a'] is not a mapping"
    >>> shape_flaw({"containers": [{"tty": True}]})
    'spec.containers[0]: it needs a name'
    >>> shape_flaw({"nodeSelector": {"env": "lab"}})
    ''
    """
    whole = patch if set(patch) <= {"metadata", "spec"} else {"spec": patch}
    # later checks rely on types that earlier checks have confirmed
    return next(_flaws(whole), "")


def _flaws(pod: Mapping[str, Any]) -> Iterator[str]:
    for name, value in pod.items():
        if not _is_mapping(value):
            yield f"{name}: {shown(value)} is not a mapping"
    yield from _flaws_of_texts(pod.get("metadata") or {})
    yield from _flaws_of_lists(pod.get("spec") or {}, "spec", _OF_POD)


def _flaws_of_texts(metadata: Mapping[str, Any]) -> Iterator[str]:
    for name in _TEXTS:
        texts = metadata.get(name)
        if not _is_mapping(texts):
            yield f"metadata.{name}: {shown(texts)} is not a mapping"
        for key, value in (texts or {}).items():
            if value is not None and not isinstance(value, str):
                yield f"metadata.{name}: {shown(value)} of {shown(key)} is not a string"


def _flaws_of_lists(obj: Mapping[str, Any], path: str, names: tuple[str, ...]) -> Iterator[str]:
    """Check lists of named entries in a pod or container. None in place of such a list is valid."""
    for name in names:
        objects = obj.get(name)
        if objects is None:
            continue
        if not isinstance(objects, list):
            yield f"{path}.{name}: {shown(objects)} is not a list"
        for number, item in enumerate(objects):
            where = f"{path}.{name}[{number}]"
            yield from _flaws_of_thing(item, where, name)
            if name in _CONTAINERS:
                yield from _flaws_of_lists(item, where, _OF_CONTAINER)


def _flaws_of_thing(obj: Any, path: str, name: str) -> Iterator[str]:
    key, kind = KEYS[name]
    if not isinstance(obj, Mapping):
        yield f"{path}: {shown(obj)} is not a mapping"
    elif obj.get(key) is None:
        yield f"{path}: it needs a {key}"
    elif not isinstance(obj[key], kind):
        yield f"{path}.{key}: {shown(obj[key])} is not a {_KINDS[kind]}"


def _is_mapping(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)

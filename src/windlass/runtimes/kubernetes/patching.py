"""Laying what a user wrote over an object: as the cluster's own tools do, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# By what the things of a list are told apart; all other lists are taken as a whole.
_KEYS = ("name", "mountPath", "containerPort", "devicePath", "topologyKey", "ip")


def merged(base: Any, patch: Any) -> Any:
    """An object with a patch laid over it; neither is changed. None takes something away.

    >>> pod = {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    >>> more = {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}
    >>> [each["name"] for each in merged(pod, more)["containers"][0]["env"]]
    ['A', 'B']
    >>> merged({"a": 1, "b": 2}, {"b": None, "c": {"d": None, "e": 3}})
    {'a': 1, 'c': {'e': 3}}
    """
    if isinstance(patch, Mapping):
        known = base if isinstance(base, Mapping) else {}
        both = {**known, **{name: merged(known.get(name), each) for name, each in patch.items()}}
        return {name: each for name, each in both.items() if patch.get(name, each) is not None}
    if isinstance(patch, (list, tuple)):
        there = base if isinstance(base, (list, tuple)) else []
        key = _key_of([*there, *patch])
        return [*patch] if key is None else _joined(there, patch, key)
    return patch


def _key_of(things: Sequence[Any]) -> str | None:
    """What all of them have, and are told apart by."""
    if not things or not all(isinstance(each, Mapping) for each in things):
        return None
    return next((key for key in _KEYS if all(key in each for each in things)), None)


def _joined(base: Sequence[Any], patch: Sequence[Any], key: str) -> list[Any]:
    found = {each[key]: each for each in base}
    for each in patch:
        found[each[key]] = merged(found.get(each[key], {}), each)
    return list(found.values())

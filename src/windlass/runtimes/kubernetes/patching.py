"""Laying what a user wrote over an object: as the cluster's own tools do, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.model.pod_lists import identity


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """An object with a patch laid over it; neither is changed. None takes something away.

    `field` is what it is called where it is: by that lists of named things are known. All others
    are taken as they are.

    >>> pod = {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    >>> more = {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}
    >>> [each["name"] for each in merged(pod, more)["containers"][0]["env"]]
    ['A', 'B']
    >>> merged({"a": 1, "b": 2}, {"b": None, "c": {"d": None, "e": 3}})
    {'a': 1, 'c': {'e': 3}}
    """
    if isinstance(patch, Mapping):
        known = base if isinstance(base, Mapping) else {}
        laid = {name: merged(known.get(name), each, name) for name, each in patch.items()}
        both = {**known, **laid}
        return {name: each for name, each in both.items() if patch.get(name, each) is not None}
    if isinstance(patch, (list, tuple)):
        there = base if isinstance(base, (list, tuple)) else []
        are_named = all(identity(field, each) is not None for each in [*there, *patch])
        return _joined(there, patch, field) if are_named else [*patch]
    return patch


def _joined(base: Sequence[Any], patch: Sequence[Any], field: str) -> list[Any]:
    """Both lists; things of one name become one, unless a list itself has several of that name.

    >>> laid = [{"name": "A", "value": "2"}, {"name": "A", "value": "3"}]
    >>> [each["value"] for each in _joined([{"name": "A", "value": "1"}], laid, "env")]
    ['2', '3']
    """
    there = Counter(identity(field, each) for each in base)
    coming = Counter(identity(field, each) for each in patch)
    laid = {identity(field, each): each for each in patch}
    joined, are_done = [], set()
    for each in base:
        name = identity(field, each)
        if name not in laid:
            joined.append(each)
        elif there[name] == coming[name] == 1:
            joined.append(merged(each, laid[name]))
            are_done.add(name)
    new = [each for each in patch if identity(field, each) not in are_done]
    return joined + [merged({}, each) for each in new]

"""Merges a user's patch into a Kubernetes object. Lists of named items are merged by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from windlass.model.kubernetes.pod_lists import identity


def merged(base: Any, patch: Any, field: str = "") -> Any:
    """Return a copy of an object after applying a patch. A value of None deletes its key.

    `field` is the key under which the object is stored. It determines which lists contain named
    items. All other lists are replaced.

    >>> pod = {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}
    >>> more = {"containers": [{"name": "main", "env": [{"name": "B", "value": "2"}]}]}
    >>> [variable["name"] for variable in merged(pod, more)["containers"][0]["env"]]
    ['A', 'B']
    >>> merged({"a": 1, "b": 2}, {"b": None, "c": {"d": None, "e": 3}})
    {'a': 1, 'c': {'e': 3}}
    """
    if isinstance(patch, Mapping):
        current = base if isinstance(base, Mapping) else {}
        laid = {name: merged(current.get(name), value, name) for name, value in patch.items()}
        both = {**current, **laid}
        return {name: value for name, value in both.items() if patch.get(name, value) is not None}
    if isinstance(patch, (list, tuple)):
        there = base if isinstance(base, (list, tuple)) else []
        are_named = all(identity(field, item) is not None for item in [*there, *patch])
        return _joined(there, patch, field) if are_named else [*patch]
    return patch


def _joined(base: Sequence[Any], patch: Sequence[Any], field: str) -> list[Any]:
    """Join two lists of named items.

    Items of the same name are merged, unless one list contains the name more than once.

    >>> laid = [{"name": "A", "value": "2"}, {"name": "A", "value": "3"}]
    >>> [variable["value"] for variable in _joined([{"name": "A", "value": "1"}], laid, "env")]
    ['2', '3']
    """
    there = Counter(identity(field, item) for item in base)
    patch_counts = Counter(identity(field, item) for item in patch)
    laid = {identity(field, item): item for item in patch}
    joined, are_done = [], set()
    for item in base:
        name = identity(field, item)
        if name not in laid:
            joined.append(item)
        elif there[name] == patch_counts[name] == 1:
            joined.append(merged(item, laid[name]))
            are_done.add(name)
    new = [item for item in patch if identity(field, item) not in are_done]
    return joined + [merged({}, item) for item in new]

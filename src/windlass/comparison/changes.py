"""Compares two mappings and lists the values that differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A named value that differs. `before` or `after` is None if that side lacks the value."""

    name: str
    kind: str  # "added", "removed" or "changed"
    before: Any = None
    after: Any = None


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return the named values that differ between two mappings.

    Names in the first mapping come first, followed by names that only the second mapping has.

    >>> [c.name + " " + c.kind for c in find_changes({"lr": 0.1, "seed": 1}, {"lr": 0.3, "n": 2})]
    ['lr changed', 'seed removed', 'n added']
    """
    changes = []
    for name in [*before, *(name for name in after if name not in before)]:
        if name not in after:
            changes.append(Change(name=name, kind="removed", before=before[name]))
        elif name not in before:
            changes.append(Change(name=name, kind="added", after=after[name]))
        elif not is_same(before[name], after[name]):
            change = Change(name=name, kind="changed", before=before[name], after=after[name])
            changes.append(change)
    return tuple(changes)


def is_same(before: Any, after: Any) -> bool:
    """Return True if two recorded values are equal and have the same type.

    For example, 1 is not the same as 1.0 or True.

    >>> is_same([1, {"a": 2}], [1, {"a": 2}]), is_same(1, True), is_same(1, 1.0)
    (True, False, False)
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(is_same(before[k], after[k]) for k in before)
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        return len(before) == len(after) and all(map(is_same, before, after))
    is_nan = before != before and after != after
    return type(before) is type(after) and bool(before == after or is_nan)


def flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested mappings into one mapping with dotted names.

    If two values would get the same name, return the mapping unchanged.

    >>> flat({"lr": 0.1, "model": {"depth": 3, "norm": {}}})
    {'lr': 0.1, 'model.depth': 3, 'model.norm': {}}
    >>> flat({"a": {"b": 1}, "a.b": 2})
    {'a': {'b': 1}, 'a.b': 2}
    """
    leaves: dict[str, Any] = {}
    for name, value in _leaves(values, ""):
        if name in leaves:
            return dict(values)
        leaves[name] = value
    return leaves


def _leaves(values: Mapping[str, Any], prefix: str) -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            leaves += _leaves(value, f"{prefix}{name}.")
        else:
            leaves.append((f"{prefix}{name}", value))
    return leaves


def plain(value: Any) -> Any:
    """Convert a struct to JSON types: mappings, lists, texts and numbers.

    >>> plain(find_changes({}, {"n": (1,)}))
    [{'name': 'n', 'kind': 'added', 'before': None, 'after': [1]}]
    """
    return _listed(msgspec.to_builtins(value))


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value

"""Finds fields that the API does not know in an object, and suggests the right names.

The API silently drops unknown fields. The module therefore compares the sent object with the
returned object. The models of the official client supply the suggestions.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from windlass.model.kubernetes.pod_lists import KEYS, identity

_LIST = re.compile(r"[Ll]ist\[(\w+)\]")  # a list type in the client's notation
_LABEL = re.compile(r"\[[^]]*\]")  # the label of a list item in a path


def dropped_fields(sent: Any, got: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each nonempty sent field that the API dropped.

    >>> sent = {"hostNetwrok": True, "tty": False, "containers": [{"name": "main", "imagee": "x"}]}
    >>> got = {"containers": [{"name": "side"}, {"name": "main", "image": "x"}]}
    >>> list(dropped_fields(sent, got))
    ['hostNetwrok', 'containers[main].imagee']
    """
    if not isinstance(sent, Mapping):
        return
    received = got if isinstance(got, Mapping) else {}
    for name, value in sent.items():
        inner = f"{path}.{name}" if path else str(name)
        if name not in received:
            if not _is_empty(value):
                yield inner
        elif isinstance(value, (list, tuple)) and isinstance(received[name], (list, tuple)):
            for label, one, other in _pairs(name, value, received[name]):
                yield from dropped_fields(one, other, f"{inner}[{label}]")
        else:
            yield from dropped_fields(value, received[name], inner)


def likely_field(path: str) -> str:
    """Return the known field that is most similar to the last part of a path, or "".

    >>> likely_field("spec.containers[main].resorces"), likely_field("spec.hostnetwork")
    ('resources', 'hostNetwork')
    >>> likely_field("spec.containers[main].volumeMounts[/data/v1.2].subpath")
    'subPath'
    >>> likely_field("spec.nothingLikeIt")
    ''
    """
    from windlass.kube.api.client_package import load_kubernetes

    models = load_kubernetes().client
    model: Any = models.V1Pod
    *before, last = _LABEL.sub("", path).split(".")
    for step in before:
        fields = {json_name: own for own, json_name in model.attribute_map.items()}
        kind = model.openapi_types.get(fields.get(step, ""), "")
        model = getattr(models, _LIST.sub(r"\1", kind), None)
        if model is None or not hasattr(model, "attribute_map"):
            return ""
    names = list(model.attribute_map.values())
    by_case = {name.lower(): name for name in names}
    if last.lower() in by_case:
        return str(by_case[last.lower()])
    near = difflib.get_close_matches(last, names, n=1, cutoff=0.7)
    return str(near[0]) if near else ""


def meant(path: str) -> str:
    """Return a sentence that suggests the right field name, or "" if no name is similar.

    >>> meant("spec.hostnetwork")
    ' Did you mean hostNetwork?'
    """
    likely = likely_field(path)
    return f" Did you mean {likely}?" if likely else ""


def _is_empty(value: Any) -> bool:
    """Return whether a value is empty. The API may leave empty values out of its response."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return not value


def _pairs(field: str, sent: Sequence[Any], got: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield each pair of matching items from two lists, along with a label for the pair.

    The API may reorder the items or add items. Named items are matched by name. Unnamed items are
    matched by position, or by similarity if the lists differ in length.
    """
    if not all(isinstance(item, Mapping) for item in [*sent, *got]):
        return
    named: dict[Hashable, list[Any]] = {}
    for item in got:
        named.setdefault(identity(field, item), []).append(item)
    for number, item in enumerate(sent):
        name = identity(field, item)
        if name is not None:
            same = named.get(name)
            if same:  # the API keeps the order of items that have the same name
                yield str(item[KEYS[field][0]]), item, same.pop(0)
        elif len(sent) == len(got):
            yield str(number), item, got[number]
        else:
            other: Mapping[str, Any] = max(got, key=partial(_likeness, item), default={})
            if _likeness(item, other):
                yield str(number), item, other


def _likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Count the fields that are equal in both objects. Return 0 if any common field differs.

    >>> _likeness({"key": "gpu", "efect": "NoSchedule"}, {"key": "gpu", "operator": "Equal"})
    1
    >>> _likeness({"key": "gpu", "value": "a"}, {"key": "gpu", "value": "b"})
    0
    """
    plain = [name for name in one if not isinstance(one[name], (Mapping, list, tuple))]
    common = [one[name] == other[name] for name in plain if name in other]
    return len(common) if all(common) else 0

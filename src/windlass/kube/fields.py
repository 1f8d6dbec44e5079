"""Fields that an object of the cluster does not have.

The API drops what it does not know without a word. So what was sent is compared with what came
back of it; which name was meant is told from the models of the official client.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# By what the things of a list are told apart, which may come back in another order, or with more.
_KEYS = ("name", "mountPath", "containerPort", "key", "topologyKey", "ip")

_LIST = re.compile(r"[Ll]ist\[(\w+)\]")  # as the models write it, older ones with a small letter


def dropped_fields(sent: Any, got: Any, path: str = "") -> Iterator[str]:
    """The paths of what is not there any more; what is empty may be left out by anybody.

    >>> sent = {"hostNetwrok": True, "tty": False, "containers": [{"name": "main", "imagee": "x"}]}
    >>> got = {"containers": [{"name": "side"}, {"name": "main", "image": "x"}]}
    >>> list(dropped_fields(sent, got))
    ['hostNetwrok', 'containers[main].imagee']
    """
    if isinstance(sent, Mapping):
        known = got if isinstance(got, Mapping) else {}
        for name, value in sent.items():
            inner = f"{path}.{name}" if path else str(name)
            if name in known:
                yield from dropped_fields(value, known[name], inner)
            elif not _is_empty(value):
                yield inner
    elif isinstance(sent, (list, tuple)) and isinstance(got, (list, tuple)):
        for label, one, other in _pairs(sent, got):
            yield from dropped_fields(one, other, f"{path}[{label}]")


def likely_field(path: str) -> str:
    """The name that was meant by the last of a path in a pod, if it is like one; else nothing.

    >>> likely_field("spec.containers[main].resorces"), likely_field("spec.hostnetwork")
    ('resources', 'hostNetwork')
    >>> likely_field("spec.nothingLikeIt")
    ''
    """
    from windlass.kube.package import load_kubernetes

    models = load_kubernetes().client
    model: Any = models.V1Pod
    *before, last = [step.partition("[")[0] for step in path.split(".")]
    for step in before:
        fields = {there: own for own, there in model.attribute_map.items()}
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


def _is_empty(value: Any) -> bool:
    """Whether it says nothing: an object without it is the same."""
    if isinstance(value, Mapping):
        return all(map(_is_empty, value.values()))
    return not value


def _pairs(sent: Sequence[Any], got: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """The things of two lists that are the same, each with what it is called."""
    both = [*sent, *got]
    if not all(isinstance(each, Mapping) for each in both):
        return
    key = next((key for key in _KEYS if all(key in each for each in both)), None)
    if key is not None:
        there = {each[key]: each for each in got}
        for each in sent:
            if each[key] in there:
                yield str(each[key]), each, there[each[key]]
    elif len(sent) == len(got):
        for number, (one, other) in enumerate(zip(sent, got, strict=True)):
            yield str(number), one, other

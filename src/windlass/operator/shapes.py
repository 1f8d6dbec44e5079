"""Shapes: what a part of an object must look like for the operator to read it.

Definitions let anything pass in a template, as the API does that checks pods. Only what is read
here is checked here; the rest is for whoever takes the pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.errors import shown

_ANY = "*"  # all fields that a shape does not name
_CONTAINER = {
    "name": str,
    "image": str,
    "command": [str],
    "args": [str],
    "env": [{"name": str, "value": str}],
    "ports": [{"name": str, "containerPort": int}],
}
TEMPLATE = {
    "metadata": {"labels": {_ANY: str}, "annotations": {_ANY: str}},
    "spec": {"containers": [_CONTAINER], "initContainers": [_CONTAINER], "priorityClassName": str},
}
ELASTIC = {"rdzvConf": [{"key": str, "value": str}]}
_KINDS = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


def misshapen(value: object, shape: Any, path: str) -> Iterator[str]:
    """What of a value is not of a shape, each with its place. What is left out is no fault.

    >>> containers = [{"name": "tensorflow", "env": "abc", "ports": [None]}]
    >>> template = {"spec": {"containers": containers}}
    >>> print(*misshapen(template, TEMPLATE, "template"), sep="\\n")
    template.spec.containers[0].env: must be a list, not 'abc'
    template.spec.containers[0].ports[0]: must be an object, not None
    """
    kind = shape if isinstance(shape, type) else type(shape)
    if not isinstance(value, kind) or isinstance(value, bool):
        yield f"{path}: must be {_KINDS[kind]}, not {shown(value)}"
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from misshapen(each, shape[0], f"{path}[{place}]")
    elif isinstance(value, Mapping):
        for field, each in value.items():
            inner = shape.get(field, shape.get(_ANY))
            if inner is not None and each is not None:
                yield from misshapen(each, inner, f"{path}.{field}")

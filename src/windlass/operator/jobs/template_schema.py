"""The schema of the pod template fields that the operator reads.

The definitions accept any template. The operator checks only the fields that it reads. The API
checks the other fields when a pod is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from windlass.model.errors import shown

_ANY = "*"  # the key for all fields that a schema does not name
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
_KINDS = {dict: "an object", list: "a list", str: "a string", int: "a whole number"}


def misshapen(value: object, shape: Any, path: str) -> Iterator[str]:
    """Yield each mismatch between a value and a schema, including its path.

    A missing field is valid.

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
        for position, item in enumerate(value):
            yield from misshapen(item, shape[0], f"{path}[{position}]")
    elif isinstance(value, Mapping):
        for field, item in value.items():
            inner = shape.get(field, shape.get(_ANY))
            if inner is not None and item is not None:
                yield from misshapen(item, inner, f"{path}.{field}")

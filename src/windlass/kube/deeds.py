"""Deeds: what a request does, as rights are spelt: a verb, a resource, a namespace."""

from __future__ import annotations

import re

import msgspec

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<part>[^/?]+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an account may be allowed to do.

    >>> str(Deed(verb="create", resource="pods", namespace="lab"))
    'create pods in namespace lab'
    """

    verb: str
    resource: str  # with its part: pods/log
    group: str = ""
    namespace: str = ""  # none: of the whole cluster
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{where}"


def deed_of(method: str, path: str) -> Deed | None:
    """What a request to a path does; none of one that is about no resource.

    >>> str(deed_of("GET", "/api/v1/namespaces/lab/pods/train-0/log"))
    'get pods/log in namespace lab'
    >>> str(deed_of("GET", "/api/v1/nodes")), str(deed_of("GET", "/api/v1/namespaces/lab"))
    ('list nodes', 'get namespaces')
    >>> str(deed_of("POST", "/apis/kubeflow.org/v1/namespaces/lab/tfjobs"))
    'create tfjobs.kubeflow.org in namespace lab'
    >>> deed_of("GET", "/version")
    """
    found = _PATH.match(path)
    if found is None:
        return None
    name, part = found["name"] or "", found["part"]
    reading = "get" if name else "list"
    return Deed(
        verb=_VERBS.get(method.upper(), reading),
        resource=found["resource"] + (f"/{part}" if part else ""),
        group=found["group"] or "",
        namespace=found["namespace"] or "",
        name=name,
    )

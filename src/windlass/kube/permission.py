"""Permissions on a cluster, each consisting of a verb, a resource and a namespace."""

from __future__ import annotations

import re

import msgspec

_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)"
    r"(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/?]+)(?:/(?P<name>[^/?]+))?(?:/(?P<part>[^/?]+))?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """One permission that an account may have.

    >>> str(Permission(verb="create", resource="pods", namespace="lab"))
    'create pods in namespace lab'
    """

    verb: str
    resource: str  # may include a subresource, such as pods/log
    group: str = ""
    namespace: str = ""  # empty for the whole cluster
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {kind}{where}"


def requested_permission(method: str, path: str) -> Permission | None:
    """Return the permission that a request needs, or None if its path names no resource.

    >>> str(requested_permission("GET", "/api/v1/namespaces/lab/pods/train-0/log"))
    'get pods/log in namespace lab'
    >>> (
    ...     str(requested_permission("GET", "/api/v1/nodes")),
    ...     str(requested_permission("GET", "/api/v1/namespaces/lab")),
    ... )
    ('list nodes', 'get namespaces')
    >>> str(requested_permission("POST", "/apis/kubeflow.org/v1/namespaces/lab/tfjobs"))
    'create tfjobs.kubeflow.org in namespace lab'
    >>> requested_permission("GET", "/version")
    """
    match = _PATH.match(path)
    if match is None:
        return None
    name, part = match["name"] or "", match["part"]
    reading = "get" if name else "list"
    return Permission(
        verb=_VERBS.get(method.upper(), reading),
        resource=match["resource"] + (f"/{part}" if part else ""),
        group=match["group"] or "",
        namespace=match["namespace"] or "",
        name=name,
    )

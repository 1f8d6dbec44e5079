"""Kinds of objects, their paths in the API, and accessors of object metadata."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

Object = dict[str, Any]  # an object of the cluster as JSON


class Kind(msgspec.Struct, frozen=True):
    """A kind of objects.

    >>> PODS.path("lab"), PODS.path("lab", "train-0", "log"), LEASES.path()
    ('/api/v1/namespaces/lab/pods', '/api/v1/namespaces/lab/pods/train-0/log', \
'/apis/coordination.k8s.io/v1/leases')
    """

    group: str
    version: str
    plural: str
    name: str  # as objects say it themselves: "Pod"

    @property
    def api_version(self) -> str:
        """The group and the version, as in `apiVersion`.

        >>> PODS.api_version, LEASES.api_version
        ('v1', 'coordination.k8s.io/v1')
        """
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of a kind in one or all namespaces, of an object, or of a subresource."""
        steps = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            steps += ["namespaces", quote(namespace, safe="")]
        steps += [self.plural, quote(name, safe=""), part]
        return "/".join(step for step in steps if step)

    def named(self, obj: Object) -> Object:
        """Add `apiVersion` and `kind` to an object: lists and responses omit them.

        >>> PODS.named({})
        {'apiVersion': 'v1', 'kind': 'Pod'}
        """
        obj.setdefault("apiVersion", self.api_version)
        obj.setdefault("kind", self.name)
        return obj


PODS = Kind("", "v1", "pods", "Pod")
SERVICES = Kind("", "v1", "services", "Service")
EVENTS = Kind("", "v1", "events", "Event")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")


def uid_of(obj: Object) -> str:
    """Return the uid, which is unique for ever."""
    return str(obj["metadata"]["uid"])


def location_of(obj: Object) -> tuple[str, str]:
    """Return the namespace and the name, which a later object may have again."""
    return str(obj["metadata"].get("namespace", "")), str(obj["metadata"]["name"])


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels, which may be empty."""
    return obj["metadata"].get("labels") or {}


def version_of(obj: Object) -> int:
    """Return the version of an object: a higher one is newer."""
    return int(obj["metadata"]["resourceVersion"])


def controller_of(obj: Object) -> Object | None:
    """Return the reference to the controlling owner, if there is one."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None

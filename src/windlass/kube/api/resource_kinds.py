"""Kinds of Kubernetes objects, their API paths, and functions that read object metadata."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

Object = dict[str, Any]  # a Kubernetes object as parsed JSON


class Kind(msgspec.Struct, frozen=True):
    """A kind of Kubernetes object, such as `Pod`.

    >>> PODS.path("lab"), PODS.path("lab", "train-0", "log"), LEASES.path()
    ('/api/v1/namespaces/lab/pods', '/api/v1/namespaces/lab/pods/train-0/log', \
'/apis/coordination.k8s.io/v1/leases')
    """

    group: str
    version: str
    plural: str
    name: str  # the value of `kind` in an object, such as "Pod"

    @property
    def api_version(self) -> str:
        """The value of `apiVersion` in objects of this kind.

        >>> PODS.api_version, LEASES.api_version
        ('v1', 'coordination.k8s.io/v1')
        """
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the API path of this kind, of one object, or of one object's subresource.

        Without a namespace, the path is for all namespaces.
        """
        steps = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            steps += ["namespaces", quote(namespace, safe="")]
        steps += [self.plural, quote(name, safe=""), part]
        return "/".join(step for step in steps if step)

    def named(self, obj: Object) -> Object:
        """Add `apiVersion` and `kind`, which lists and responses omit, to an object and return it.

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
    """Return the uid of an object. No other object ever has the same uid."""
    return str(obj["metadata"]["uid"])


def location_of(obj: Object) -> tuple[str, str]:
    """Return the namespace and the name of an object.

    Unlike a uid, they may also belong to a later object.
    """
    return str(obj["metadata"].get("namespace", "")), str(obj["metadata"]["name"])


def labels_of(obj: Object) -> dict[str, str]:
    """Return the labels of an object, or an empty dict if it has none."""
    return obj["metadata"].get("labels") or {}


def version_of(obj: Object) -> int:
    """Return the resource version of an object as a number. A newer version has a higher number."""
    return int(obj["metadata"]["resourceVersion"])


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of the object's controller, or None if it has no controller."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None

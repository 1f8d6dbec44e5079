"""Kinds: what sorts of objects there are in a cluster, and where the API has them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

Object = dict[str, Any]  # an object of the cluster, as the API's JSON says it


class Kind(msgspec.Struct, frozen=True):
    """A sort of objects.

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
        """The group and the version, as objects say them.

        >>> PODS.api_version, LEASES.api_version
        ('v1', 'coordination.k8s.io/v1')
        """
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Where they are: in a namespace or in all; one of them; a part of it, as its status."""
        steps = ["/apis" if self.group else "/api", self.api_version]
        if namespace:
            steps += ["namespaces", quote(namespace, safe="")]
        steps += [self.plural, quote(name, safe=""), part]
        return "/".join(step for step in steps if step)

    def named(self, thing: Object) -> Object:
        """The same object, which says what it is: lists and answers leave that out.

        >>> PODS.named({})
        {'apiVersion': 'v1', 'kind': 'Pod'}
        """
        thing.setdefault("apiVersion", self.api_version)
        thing.setdefault("kind", self.name)
        return thing


PODS = Kind("", "v1", "pods", "Pod")
SERVICES = Kind("", "v1", "services", "Service")
EVENTS = Kind("", "v1", "events", "Event")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")


def uid_of(thing: Object) -> str:
    """What no other object ever has."""
    return str(thing["metadata"]["uid"])


def place_of(thing: Object) -> tuple[str, str]:
    """The namespace and the name, which another object may have when this one is gone."""
    return str(thing["metadata"].get("namespace", "")), str(thing["metadata"]["name"])


def labels_of(thing: Object) -> dict[str, str]:
    """The labels, if there are any."""
    return thing["metadata"].get("labels") or {}


def version_of(thing: Object) -> int:
    """Of two versions of an object the higher is the newer."""
    return int(thing["metadata"]["resourceVersion"])


def controller_of(thing: Object) -> Object | None:
    """The reference to whoever controls it, if anybody does."""
    for owner in thing["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return dict(owner)
    return None

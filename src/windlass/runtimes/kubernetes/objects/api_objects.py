"""Creates, reads and deletes the objects of a job through the Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import EVENTS, PODS, Kind, Object, labels_of
from windlass.kube.api.watch import PAGE
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes.objects.names import ATTEMPT, UID

SECRETS = Kind("", "v1", "secrets", "Secret")
_QUICK = 20.0  # seconds that a response may take
_MISSING, _TAKEN = 404, 409
_MOST_PAGES = 20  # pages of events to read, because a namespace may contain any number of events
# Events that every pod has and that explain nothing.
_USUAL = ("Scheduled", "Created", "Started", "Killing")


class NameTaken(KubernetesError):
    """Raised if a foreign object has the name of one of our objects."""

    def __init__(self, kind: Kind, namespace: str, name: str) -> None:
        super().__init__(
            f"A {kind.name} {name} in namespace {namespace} already exists, and does not "
            "belong to this job.",
            hint="Remove or rename it. Windlass changes only its own objects.",
            status=_TAKEN,
            reason="AlreadyExists",
        )
        self.kind = kind
        self.namespace = namespace
        self.name = name


def make(connection: Connection, kind: Kind, wanted: Object) -> Object:
    """Create an object, or return the existing object of that name.

    Raises `NameTaken` if the existing object is not ours.
    """
    namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    for _ in range(3):
        try:
            made: Object = connection.request("POST", kind.path(namespace), wanted, timeout=_QUICK)
        except KubernetesError as error:
            if error.status != _TAKEN or error.reason != "AlreadyExists":
                raise
            there = find(connection, kind, namespace, name)
            if there is None:
                continue  # the object was deleted between the two requests
            _check_ours(kind, there, wanted)
            return there
        return made
    raise KubernetesError(
        f"{kind.name} {name} in namespace {namespace} is created and deleted again and again."
    )


def find(connection: Connection, kind: Kind, namespace: str, name: str) -> Object | None:
    """Return the object of this name, or None if there is none."""
    try:
        item: Object = connection.request("GET", kind.path(namespace, name), timeout=_QUICK)
    except KubernetesError as error:
        if error.status == _MISSING:
            return None
        raise
    return item


def remove(connection: Connection, kind: Kind, obj: Object, *, grace: int | None = None) -> None:
    """Delete exactly this object and all objects that it owns. Do nothing if it is missing."""
    metadata = obj["metadata"]
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": metadata["uid"]},
    }
    if grace is not None:
        body["gracePeriodSeconds"] = grace
    path = kind.path(metadata["namespace"], metadata["name"])
    try:
        connection.request("DELETE", path, body, timeout=_QUICK)
    except KubernetesError as error:
        # The object is already deleted, or a different object has its name by now.
        if error.status not in (_MISSING, _TAKEN):
            raise


def fetch_events(
    connection: Connection, namespace: str, pods: Iterable[str]
) -> dict[str, list[Object]]:
    """Return the unusual events of pods, by pod uid. One request reads the events for all pods."""
    by_pod: dict[str, list[Object]] = {uid: [] for uid in pods}
    which = "kind=Pod" if len(by_pod) > 1 else f"uid={next(iter(by_pod))}"
    selector = ",".join((f"involvedObject.{which}", *(f"reason!={reason}" for reason in _USUAL)))
    query = {"fieldSelector": selector, "limit": str(PAGE)}
    for _ in range(_MOST_PAGES):
        page = connection.request("GET", EVENTS.path(namespace), query=query, timeout=_QUICK)
        for event in page.get("items") or ():
            uid = (event.get("involvedObject") or {}).get("uid")
            if uid in by_pod:
                by_pod[uid].append(event)
        query["continue"] = (page.get("metadata") or {}).get("continue") or ""
        if not query["continue"]:
            break
    return by_pod


def _check_ours(kind: Kind, there: Object, wanted: Object) -> None:
    own, labels = labels_of(wanted), labels_of(there)
    metadata = there["metadata"]
    if any(labels.get(name) != own.get(name) for name in (UID, ATTEMPT)):
        raise NameTaken(kind, metadata["namespace"], metadata["name"])
    if "deletionTimestamp" in metadata and kind is not PODS:
        raise KubernetesError(
            f"{kind.name} {metadata['name']} in namespace {metadata['namespace']} is being deleted."
        )

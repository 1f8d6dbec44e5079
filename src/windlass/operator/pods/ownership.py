"""Decides which pods and services belong to a job.

The owner's uid, never labels alone, decides this. The operator adopts pods and services that have a
job's labels but no owner. It releases a job's pods and services whose labels no longer match the
job. It never changes objects that any other owner controls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import (
    PODS,
    SERVICES,
    Kind,
    Object,
    controller_of,
    labels_of,
    location_of,
    uid_of,
)
from windlass.model.errors import KubernetesError
from windlass.operator.jobs.from_object import Translation
from windlass.operator.jobs.store import JobObjectStore
from windlass.operator.names import JOB_NAME, OPERATOR_NAME, job_labels, replica_of
from windlass.operator.object_cache import ObjectCache
from windlass.operator.pods.builder import owner_reference

_MERGE = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409

RecordEvent = Callable[
    [Translation, str, str, str], None
]  # the job, the event's reason, its message, the object's name


def ownership_keys(obj: Object) -> list[str]:
    """Return the index keys of a pod or service.

    One key stands for the job that the object's labels name. The other, if the object has an owner,
    stands for the owner's uid.
    """
    owner, labels = controller_of(obj), labels_of(obj)
    keys = [_job_key(location_of(obj)[0], labels)]
    return keys if owner is None else [*keys, f"uid:{owner['uid']}"]


class Ownership:
    """Adopts and releases the pods and services in `cache`, recording an event each time."""

    def __init__(
        self,
        connection: Connection,
        jobs: JobObjectStore,
        cache: ObjectCache,
        *,
        record: RecordEvent,
    ) -> None:
        self._connection = connection
        self._jobs = jobs
        self._cache = cache
        self._record = record

    def reconcile(self, made_from: Translation) -> None:
        """Adopt ownerless objects that have the job's labels.

        Release objects that the job owns but that do not have its labels.
        """
        job = made_from.job
        wanted = job_labels(made_from.kind, job.name)
        key = _job_key(made_from.namespace, wanted)
        for watcher in (self._cache.of(kind, made_from.namespace) for kind in (PODS, SERVICES)):
            for obj in watcher.matching(key):
                is_going = "deletionTimestamp" in obj["metadata"]
                if controller_of(obj) is None and not is_going and replica_of(labels_of(obj)):
                    self.adopt(watcher.kind, obj, made_from)
            for obj in watcher.matching(f"uid:{job.uid}"):
                if not wanted.items() <= labels_of(obj).items():
                    self.disown(watcher.kind, obj, made_from)

    def adopt(self, kind: Kind, obj: Object, made_from: Translation) -> Object | None:
        """Make a pod or service belong to a job, unless the job was deleted or replaced."""
        job = self._jobs.refresh(made_from.job.uid)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        owners = [*(obj["metadata"].get("ownerReferences") or ()), owner_reference(made_from)]
        adopted = self._patch_owners(kind, obj, owners)
        if adopted is not None:
            name = location_of(obj)[1]
            self._record(made_from, f"Adopted{kind.name}", f"Adopted {kind.name.lower()}", name)
        return adopted

    def disown(self, kind: Kind, obj: Object, made_from: Translation) -> None:
        """Release a pod or service whose labels do not match the job that owns it."""
        owners = [
            owner
            for owner in obj["metadata"].get("ownerReferences") or ()
            if owner.get("uid") != made_from.job.uid
        ]
        if self._patch_owners(kind, obj, owners) is not None:
            name = location_of(obj)[1]
            self._record(made_from, f"Released{kind.name}", f"Released {kind.name.lower()}", name)

    def _patch_owners(self, kind: Kind, obj: Object, owners: Sequence[Object]) -> Object | None:
        """Set an object's owners. Return None if the object has changed since it was read."""
        namespace, name = location_of(obj)
        body = {
            "metadata": {
                "uid": uid_of(obj),
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "ownerReferences": owners,
            }
        }
        try:
            new = self._connection.request(
                "PATCH", kind.path(namespace, name), body, content_type=_MERGE
            )
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            return None  # the object changed, and the next reconciliation will see its new state
        new = kind.named(new)
        # without this label, none of our watches would report the object's end
        if JOB_NAME in labels_of(new):
            self._cache.of(kind, namespace).observe(new)
        return new


def _job_key(namespace: str, labels: Mapping[str, str]) -> str:
    return f"job:{namespace}/{labels.get(JOB_NAME, '')}/{labels.get(OPERATOR_NAME, '')}"

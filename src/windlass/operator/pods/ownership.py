"""Decides which pods and services belong to a job.

The uid of the owner decides, and never labels alone. The operator adopts pods and services that
have the labels of a job and no owner. It releases objects of a job that have the labels of another
job. It never changes objects with other owners.
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
]  # the job, the reason, the action, the object


def ownership_keys(obj: Object) -> list[str]:
    """Return the index keys of a pod or service.

    One key stands for the job that its labels name, the other for the uid of its owner.
    """
    owner, labels = controller_of(obj), labels_of(obj)
    keys = [_job_key(location_of(obj)[0], labels)]
    return keys if owner is None else [*keys, f"uid:{owner['uid']}"]


class Ownership:
    """Adopts and releases the pods and services in `cache`, and records an event each time."""

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
        """Adopt objects that have the job's labels and no owner.

        Release those with other labels.
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
        """Make an object belong to a job, if the job still exists with the same uid."""
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
        """Release a pod or service whose labels belong to another job."""
        owners = [
            owner
            for owner in obj["metadata"].get("ownerReferences") or ()
            if owner.get("uid") != made_from.job.uid
        ]
        if self._patch_owners(kind, obj, owners) is not None:
            name = location_of(obj)[1]
            self._record(made_from, f"Released{kind.name}", f"Released {kind.name.lower()}", name)

    def _patch_owners(self, kind: Kind, obj: Object, owners: Sequence[Object]) -> Object | None:
        """Set the owners of an object. Return None if the object changed since it was read."""
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
            return None  # the object changed, and the next reconciliation sees its new state
        new = kind.named(new)
        # without this label, no watch of Windlass would report that the object ended
        if JOB_NAME in labels_of(new):
            self._cache.of(kind, namespace).observe(new)
        return new


def _job_key(namespace: str, labels: Mapping[str, str]) -> str:
    return f"job:{namespace}/{labels.get(JOB_NAME, '')}/{labels.get(OPERATOR_NAME, '')}"

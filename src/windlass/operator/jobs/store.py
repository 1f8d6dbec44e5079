"""The controller's job store, which keeps its data in the job objects of a cluster.

To save a status, the store first replaces the object's annotation, provided that the object's
version is unchanged. Then it writes the object's `status` field. If the operator dies in between,
the next reconciliation repairs the `status` field.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from windlass.engine.conditions import INVALID_REASON, set_condition
from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import Object, labels_of, location_of, uid_of
from windlass.kube.api.watch import Watcher
from windlass.model.errors import InvalidArgument, KubernetesError, WindlassError
from windlass.model.job import Job, JobSpec
from windlass.model.status import ConditionType, Event, EventKind, JobStatus, Replica
from windlass.operator import prometheus
from windlass.operator.events import EventRecorder
from windlass.operator.job_kinds import BY_NAME, JOB_KINDS, JobKind
from windlass.operator.jobs.from_object import Translation, invalid_job, is_ours, translate
from windlass.operator.jobs.object_status import build_status, failure_message, is_same_status
from windlass.operator.jobs.status_annotation import (
    annotation_text,
    status_from_object,
    stored_status,
)
from windlass.operator.names import JOB_NAME, MEMORY, OPERATOR_NAME
from windlass.operator.object_cache import ObjectCache
from windlass.operator.prometheus import Counts

_MERGE = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409
_PROJECT_TRIES = 5
# The engine's events for intended actions. The runtime records its own event when such an action is
# complete.
_INTENTIONS = frozenset({"ReplicaStarting", "ReplicaStopping"})

_log = logging.getLogger(__name__)


class JobObjectStore:
    """A `JobStore` that works on the job objects in `cache`.

    `check` raises `InvalidArgument` if pods cannot be built from a translated object.
    """

    def __init__(
        self,
        connection: Connection,
        namespaces: Sequence[str] = (),
        *,
        recorder: EventRecorder,
        counts: Counts,
        check: Callable[[Translation], None] = lambda _translation: None,
        kinds: Sequence[JobKind] = JOB_KINDS,
        on_trouble: Callable[[WindlassError | None], None] = lambda _error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._recorder = recorder
        self._counts = counts
        self._check = check
        self._wake: Callable[[str], None] | None = None  # None while another instance is the leader
        self._shared: set[str] = set()  # namespaces for which a warning was logged
        self._lock = threading.Lock()
        self._translations: dict[str, tuple[int, Translation | InvalidArgument]] = {}
        self._refused: dict[str, tuple[Translation, InvalidArgument]] = {}
        self._written: dict[str, deque[str]] = {}  # our last annotations, by job uid
        self.cache = ObjectCache(
            connection, [kind.kind for kind in kinds], namespaces,
            on_change=self._changed, on_trouble=on_trouble, clock=clock,
        )  # fmt: skip

    def watch(self, wake: Callable[[str], None] | None) -> None:
        """Call `wake` with the uid of every job that changes from now on. None stops the calls."""
        self._wake = wake

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """Return a job and its status.

        Returns None if the job is deleted or another operator manages it.
        """
        resource = self.find(uid)
        if resource is None or not _is_to_act_on(resource):
            self._forget(uid)
            return None
        status = stored_status(resource)
        has_status = status is not None
        if status is None:
            status = status_from_object(resource)
        translation = self._translated(resource)
        problem = (
            translation if isinstance(translation, InvalidArgument) else self.problem(translation)
        )
        if problem is not None and not status.is_finished:
            status = self._refuse(resource, status, problem)
        elif has_status:
            self._repair_status(resource, status)
        if isinstance(translation, InvalidArgument):
            return invalid_job(resource), status
        return translation.job, msgspec.structs.replace(status, addresses=translation.addresses)

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        events: Sequence[Event],
        replicas: Sequence[Replica],
    ) -> bool:
        """Store a changed status in the annotation and then update the object's `status` field.

        Returns False if the stored status is not `old`.
        """
        resource = self.find(uid)
        if resource is None:
            return False
        before, after = annotation_text(uid, old), annotation_text(uid, new)
        stored = stored_status(resource)
        is_first = stored is None
        if (
            annotation_text(uid, stored if stored is not None else status_from_object(resource))
            != before
        ):
            return False
        if before != after or is_first:
            swapped = self._swap(resource, after)
            if swapped is None:
                return False
            resource = swapped
        self._count(resource, old, new, is_first=is_first)
        self._project(resource, self._spec_of(resource), new, replicas)
        failed = new.condition(ConditionType.FAILED)
        for event in events:
            if event.reason not in _INTENTIONS:
                is_end = failed is not None and event.message == failed.message
                message = failure_message(new, event.message) if is_end else event.message
                self._recorder.record(
                    resource, event.reason, message, kind=event.kind, at=event.time
                )
        return True

    def unfinished(self) -> Iterable[str]:
        """Yield the uids of jobs that still need the controller, oldest first.

        These jobs are not settled, have an outdated `status` field, or have a time to live.
        """
        objects = self.cache.items()
        objects.sort(key=lambda obj: (obj["metadata"]["creationTimestamp"], location_of(obj)))
        for resource in objects:
            if self._is_open(resource):
                yield uid_of(resource)

    def _is_open(self, resource: Object) -> bool:
        try:
            status = stored_status(resource)
            return status is None or not status.settled or self._is_unfinished(resource, status)
        except Exception:  # noqa: BLE001 -- one bad object must not affect other objects
            _log.exception("the object %s/%s cannot be read", *location_of(resource))
            return False

    def find(self, uid: str) -> Object | None:
        """Return a job's object, or None if it is deleted."""
        return self.cache.get(uid)

    def translation(self, uid: str) -> Translation | None:
        """Return the translation of a job, or None if the job is deleted or invalid."""
        resource = self.find(uid)
        if resource is None or not _is_to_act_on(resource):
            return None
        result = self._translated(resource)
        return None if isinstance(result, InvalidArgument) else result

    def refuse(self, made_from: Translation, problem: InvalidArgument) -> None:
        """Record that the cluster rejected a job's pods, so that the job fails."""
        with self._lock:
            self._refused[made_from.job.uid] = (made_from, problem)

    def problem(self, made_from: Translation) -> InvalidArgument | None:
        """Return why the cluster rejected a translation's pods, or None if it did not."""
        with self._lock:
            refusal = self._refused.get(made_from.job.uid)
        # If the object has changed since then, it has a new translation.
        return refusal[1] if refusal is not None and refusal[0] is made_from else None

    def status(self, uid: str) -> JobStatus | None:
        """Return the stored status of a job."""
        resource = self.find(uid)
        return None if resource is None else stored_status(resource)

    def namesakes(self, resource: Object) -> Iterator[str]:
        """Yield the uids of the jobs that are named in the labels of a pod or service."""
        labels = labels_of(resource)
        namespace, name = location_of(resource)[0], labels.get(JOB_NAME, "")
        for watcher in self.cache.watchers:
            job = watcher.at(namespace, name)
            if job is not None and _is_of(job, labels):
                yield uid_of(job)

    def refresh(self, uid: str) -> Object | None:
        """Read a job's object from the cluster again. Return None if the object is deleted."""
        resource = self.find(uid)
        return None if resource is None else self._refresh(resource)

    def settled(self, uid: str) -> tuple[JobSpec, JobStatus] | None:
        """Return a settled job's spec and status, or None if the job is not settled."""
        resource = self.find(uid)
        status = (
            None if resource is None or not _is_to_act_on(resource) else stored_status(resource)
        )
        if resource is None or status is None or not status.settled:
            return None
        return self._spec_of(resource), status

    def delete(self, uid: str) -> None:
        """Delete a job's object and all objects that it owns."""
        resource = self.find(uid)
        if resource is None or "deletionTimestamp" in resource["metadata"]:
            return
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            self._connection.request("DELETE", _path(resource), options)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise

    def _is_unfinished(self, resource: Object, status: JobStatus) -> bool:
        """Return whether a settled job has an outdated `status` field or has a time to live."""
        return (
            self._is_status_outdated(resource, status)
            or self._spec_of(resource).ttl_after_finished is not None
        )

    def _forget(self, uid: str) -> None:
        with self._lock:
            self._translations.pop(uid, None)
            self._refused.pop(uid, None)
            self._written.pop(uid, None)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        resource = after or before
        if resource is None:
            return
        wake = self._wake
        if wake is None:
            return  # the leader reconciles and counts this change
        if after is None:
            if is_ours(resource):
                self._counts.add(prometheus.DELETED, location_of(resource)[0], resource["kind"])
        elif before is not None:
            is_others = is_ours(after) and self._is_written_by_another(before, after)
            if is_others:
                self._warn_of_other_operator(after)
            if not is_others and not _is_news(before, after):
                return
        wake(uid_of(resource))

    def _is_written_by_another(self, before: Object, after: Object) -> bool:
        """Return whether another process changed the stored status of a job."""
        text = _memory_of(after)
        with self._lock:
            return text != _memory_of(before) and text not in self._written.get(uid_of(after), ())

    def _warn_of_other_operator(self, resource: Object) -> None:
        """Log a warning, once per namespace, that a second operator seems to be active there."""
        namespace, name = location_of(resource)
        if namespace in self._shared:
            return
        self._shared.add(namespace)
        _log.warning(
            "another program changed the stored status of %s %s: another operator may "
            "manage namespace %s. Nothing is done twice, but only one operator should run",
            resource["kind"], name, namespace,
        )  # fmt: skip

    def _translated(self, resource: Object) -> Translation | InvalidArgument:
        uid, generation = uid_of(resource), int(resource["metadata"].get("generation") or 0)
        with self._lock:
            cached = self._translations.get(uid)
        if cached is not None and cached[0] == generation:
            return cached[1]
        translation: Translation | InvalidArgument
        try:
            translation = translate(resource)
            self._check(translation)
        except InvalidArgument as error:
            translation = error
        except Exception as error:  # noqa: BLE001 -- a template may contain anything
            _log.exception("%s/%s cannot be translated", *location_of(resource))
            translation = InvalidArgument(
                f"The object is not valid: {type(error).__name__}: {error}."
            )
        with self._lock:
            self._translations[uid] = (generation, translation)
        return translation

    def _spec_of(self, resource: Object) -> JobSpec:
        translation = self._translated(resource)
        return (
            invalid_job(resource) if isinstance(translation, InvalidArgument) else translation.job
        ).spec

    def _refuse(self, resource: Object, status: JobStatus, problem: InvalidArgument) -> JobStatus:
        """Mark the job of an invalid object as failed. The message lists all problems."""
        now, message = time.time(), str(problem)
        new = set_condition(status, ConditionType.FAILED, INVALID_REASON, message, now)
        conditions = tuple(
            msgspec.structs.replace(condition, status=False, last_update=now, last_transition=now)
            if condition.status
            and condition.type in (ConditionType.RUNNING, ConditionType.RESTARTING)
            else condition
            for condition in new.conditions
        )
        new = msgspec.structs.replace(
            new, conditions=conditions, completion_time=now, last_reconcile_time=now
        )
        event = Event(time=now, kind=EventKind.WARNING, reason=INVALID_REASON, message=message)
        if not self.save(uid_of(resource), status, new, (event,), ()):
            raise KubernetesError(
                f"{location_of(resource)[1]} changed meanwhile", reason="Conflict"
            )
        return new

    def _swap(self, resource: Object, text: str) -> Object | None:
        """Replace the object's annotation and return the new object.

        Return None if the object changed in the meantime.
        """
        uid = uid_of(resource)
        with self._lock:
            # Remember several texts. If the response of a write was lost, a later read shows that
            # the write succeeded.
            self._written.setdefault(uid, deque(maxlen=3)).append(text)
        patch = {
            "metadata": {
                "annotations": {MEMORY: text},
                "resourceVersion": resource["metadata"]["resourceVersion"],
                "uid": uid,
            }
        }
        try:
            new: Object = self._connection.request(
                "PATCH", _path(resource), patch, content_type=_MERGE
            )
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            self._refresh(resource)
            return None
        self._observe(new)
        return new

    def _project(
        self, resource: Object, spec: JobSpec, status: JobStatus, replicas: Sequence[Replica] | None
    ) -> None:
        """Write the stored status to the object's `status` field unless the field is up to date.

        If `replicas` is None, the object's replica counts stay as they are.
        """
        kind, (_, name) = BY_NAME[resource["kind"]], location_of(resource)
        projected = build_status(kind, name, spec, status, replicas or ())
        if replicas is None:
            projected["replicaStatuses"] = (resource.get("status") or {}).get(
                "replicaStatuses"
            ) or {}
        for _ in range(_PROJECT_TRIES):
            if is_same_status(projected, resource.get("status") or {}):
                return
            try:
                new = self._connection.request(
                    "PUT", _path(resource, "status"), {**resource, "status": projected}
                )
            except KubernetesError as error:
                if error.status == _NOT_FOUND:
                    self._refresh(resource)
                    return
                if error.status != _CONFLICT:
                    raise
                fresh = self._refresh(resource)
                if fresh is None or _memory_of(fresh) != _memory_of(resource):
                    return  # the process that made this change also writes the field
                resource = fresh
            else:
                self._observe(new)
                return
        raise KubernetesError(f"the status of {name} keeps changing", reason="Conflict")

    def _repair_status(self, resource: Object, status: JobStatus) -> None:
        """Write the object's `status` field if an earlier operator died before writing it."""
        if self._is_status_outdated(resource, status):
            self._project(resource, self._spec_of(resource), status, None)

    def _is_status_outdated(self, resource: Object, status: JobStatus) -> bool:
        """Return whether the object's `status` field differs from the stored status."""
        kind, (_, name) = BY_NAME[resource["kind"]], location_of(resource)
        projected = build_status(kind, name, JobSpec(roles=()), status, ())
        return bool(
            projected["conditions"] != ((resource.get("status") or {}).get("conditions") or [])
        )

    def _count(self, resource: Object, old: JobStatus, new: JobStatus, *, is_first: bool) -> None:
        namespace, kind = location_of(resource)[0], resource["kind"]
        if is_first:
            self._counts.add(prometheus.CREATED, namespace, kind)
        if new.restarts > old.restarts:
            self._counts.add(prometheus.RESTARTED, namespace, kind, new.restarts - old.restarts)
        if new.is_finished and not old.is_finished:
            is_success = new.holds(ConditionType.SUCCEEDED)
            self._counts.add(
                prometheus.SUCCEEDED if is_success else prometheus.FAILED, namespace, kind
            )

    def _refresh(self, resource: Object) -> Object | None:
        """Read an object from the cluster and put it into the cache."""
        try:
            fresh: Object = self._connection.request("GET", _path(resource))
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            fresh = {}
        if not fresh or uid_of(fresh) != uid_of(resource):
            self._watcher_of(resource).observe_deleted(resource)
            return None
        self._observe(fresh)
        return fresh

    def _observe(self, resource: Object) -> None:
        self._watcher_of(resource).observe(resource)

    def _watcher_of(self, resource: Object) -> Watcher:
        return self.cache.of(BY_NAME[resource["kind"]].kind, location_of(resource)[0])


def _is_to_act_on(resource: Object) -> bool:
    return "deletionTimestamp" not in resource["metadata"] and is_ours(resource)


def _is_of(resource: Object, labels: dict[str, str]) -> bool:
    return labels.get(OPERATOR_NAME) == BY_NAME[resource["kind"]].operator_name


def _is_news(before: Object, after: Object) -> bool:
    """Return whether an object's spec changed or its deletion started."""
    if before["metadata"].get("generation") != after["metadata"].get("generation"):
        return True
    return "deletionTimestamp" in after["metadata"] and (
        "deletionTimestamp" not in before["metadata"]
    )


def _memory_of(resource: Object) -> Any:
    return (resource["metadata"].get("annotations") or {}).get(MEMORY)


def _path(resource: Object, part: str = "") -> str:
    return BY_NAME[resource["kind"]].kind.path(*location_of(resource), part)

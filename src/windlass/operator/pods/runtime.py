"""The operator's runtime. Each replica has a pod and a headless service of the same name.

The owner's uid, never labels alone, decides which job a pod or service belongs to. See
`ownership.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from windlass.engine.deadline import ttl_left
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
from windlass.kube.errors.api_errors import InvalidObject
from windlass.kube.pod_state import read_pod_state, was_deleted_before_end
from windlass.model.errors import KubernetesError, WindlassError
from windlass.model.job import Assignment, CleanPolicy, Job
from windlass.model.status import ConditionType, EventKind, Phase, Replica, ReplicaId
from windlass.operator.events import EventRecorder
from windlass.operator.job_kinds import JOB_KINDS
from windlass.operator.jobs.dropped_fields import DroppedFields
from windlass.operator.jobs.from_object import Translation
from windlass.operator.jobs.store import JobObjectStore
from windlass.operator.names import (
    JOB_NAME,
    OPERATOR_NAME,
    job_labels,
    replica_name,
    replica_of,
)
from windlass.operator.object_cache import ObjectCache
from windlass.operator.pods.builder import make_pod, make_service
from windlass.operator.pods.events import PodEvents
from windlass.operator.pods.invalid_pod import invalid_pod_error
from windlass.operator.pods.ownership import Ownership, ownership_keys
from windlass.operator.pods.pending import PendingPods, has_node, is_waiting
from windlass.operator.pods.recreate_backoff import RecreateBackoff
from windlass.runtimes.base import NameHeld, NotYet

_CONTAINERS = {kind.operator_name: kind.container for kind in JOB_KINDS}
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409

_log = logging.getLogger(__name__)


class NotOurs(WindlassError):
    """Raised if an object of a different owner already has the name that a replica needs."""


class PodRuntime:
    """A `Runtime` that works on the pods and services in `cache`."""

    def __init__(
        self,
        connection: Connection,
        jobs: JobObjectStore,
        namespaces: Sequence[str] = (),
        *,
        recorder: EventRecorder,
        on_trouble: Callable[[WindlassError | None], None] = lambda _error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._jobs = jobs
        self._recorder = recorder
        self._wake: Callable[[str], None] = lambda _uid: None
        self.events = PodEvents(
            connection, wake=lambda uid: self._wake(uid), waits=self._waits_for_its_node
        )
        self._pending = PendingPods(recorder, self.events)
        self._dropped_fields = DroppedFields(recorder)
        self._backoff = RecreateBackoff(recorder, clock)
        self._unserved: dict[str, frozenset[str]] = {}  # the reported failures, by job uid
        self.cache = ObjectCache(
            connection, (PODS, SERVICES), namespaces, selector=JOB_NAME, keys=ownership_keys,
            on_change=self._changed, on_trouble=on_trouble, clock=clock,
        )  # fmt: skip
        self._ownership = Ownership(connection, jobs, self.cache, record=self._record)

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses of the replicas' services, which are the same in every attempt."""
        translation = self._jobs.translation(job.uid)
        return dict(assigned) if translation is None else translation.addresses

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Create an attempt's pod and, if the replica has no service yet, its service."""
        del assignment  # addresses follow from names
        made_from = self._jobs.translation(job.uid)
        if made_from is None or self._jobs.problem(made_from) is not None:
            raise NotYet("its template is missing", is_notified=False)
        name = replica_name(job.name, replica.role, replica.index)
        existing = self.cache.at(PODS, made_from.namespace, name)
        if existing is not None and self._is_in_the_way(existing, made_from, replica):
            raise NameHeld(
                f"the pod {name} still exists", is_notified=_is_end_observed(existing, made_from)
            )
        service = self.cache.at(SERVICES, made_from.namespace, name)
        try:
            if service is None or not _is_owned_by(service, job.uid):
                self._create_object(SERVICES, make_service(made_from, replica), made_from, replica)
            if existing is None:
                self._backoff.check(job.uid, replica, name, self._jobs.find(job.uid))
                self._create_object(PODS, make_pod(made_from, replica), made_from, replica)
                self._backoff.record(job.uid, replica)
        except InvalidObject as refused:
            if self._has_live_peer(job.uid, replica.role):
                raise  # the cluster has accepted a pod of this role and may do so again
            self._jobs.refuse(made_from, invalid_pod_error(refused, made_from, replica))
            raise NotYet(refused.message, is_notified=False) from None

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        """Delete an attempt's pod.

        `grace` has no effect, because the pod's template sets the grace period.
        """
        del grace, interrupt
        for pod in self._owned(PODS, job.uid):
            if replica_of(labels_of(pod)) == replica and "deletionTimestamp" not in pod["metadata"]:
                self._delete(PODS, pod, job.uid)
        if self._is_not_needed(job.uid, replica):
            for service in self._owned(SERVICES, job.uid):
                owner_replica = replica_of(labels_of(service))
                if owner_replica and (owner_replica.role, owner_replica.index) == (
                    replica.role,
                    replica.index,
                ):
                    self._delete(SERVICES, service, job.uid)

    def list(self, job: Job) -> Sequence[Replica]:
        """Return a job's attempts, based on its pods."""
        made_from = self._jobs.translation(job.uid)
        if made_from is not None:
            self._ownership.reconcile(made_from)
            self._recreate_services(made_from)
            self._delete_stale_services(job.uid)
            self._report_pending(job.uid)
        return [
            self._current_replica(job, replica, pods) for replica, pods in self._attempts(job.uid)
        ]

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with a job's uid whenever one of its pods or services has changed."""
        self._wake = callback

    def release(self, job_uid: str) -> None:
        """Delete the running pods of a settled job.

        If the job's time to live is over, delete the job itself.
        """
        self._pending.forget(job_uid)
        self._dropped_fields.forget(job_uid)
        self._backoff.forget(job_uid)
        self._unserved.pop(job_uid, None)
        settled = self._jobs.settled(job_uid)
        if settled is None:
            return
        spec, status = settled
        if spec.clean_policy is not CleanPolicy.NONE:
            for pod in self._owned(PODS, job_uid):  # their other containers still run
                is_going = "deletionTimestamp" in pod["metadata"]
                if pod.get("status", {}).get("phase") in ("Running", "Pending") and not is_going:
                    self._delete(PODS, pod, job_uid)
        self._delete_stale_services(job_uid)
        left = ttl_left(spec, status, time.time())
        if left is not None and left > 0:
            self._wake(job_uid)  # the next reconciliation waits for the end of the time to live
        elif left is not None:
            self._jobs.delete(job_uid)

    def close(self) -> None:
        """Stop the watchers of pods and services. Pods continue to run."""
        self.events.stop()
        self.cache.stop()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        for obj in (before, after):
            if obj is None:
                continue
            owner = controller_of(obj)
            if owner is not None:
                self._wake(str(owner["uid"]))
            if owner is None or after is None or before is None:
                # The job that the labels name may adopt an ownerless object, or may wait for its
                # name to become free.
                for uid in self._jobs.namesakes(obj):
                    self._wake(uid)

    def _is_in_the_way(self, pod: Object, made_from: Translation, replica: ReplicaId) -> bool:
        """Return whether an existing pod must be deleted before an attempt's pod can be created.

        Such a pod has the same name as the new pod.
        """
        if not _is_owned_by(pod, made_from.job.uid):
            if "deletionTimestamp" in pod["metadata"]:
                return True
            raise _not_ours(PODS, pod)
        return replica_of(labels_of(pod)) != replica

    def _has_live_peer(self, uid: str, role: str) -> bool:
        """Return whether some other pod of this role is alive.

        If so, the cluster has accepted such pods, and a newly rejected pod must not end the job.
        """
        return any(
            replica.role == role and not seen.phase.is_final and not seen.deleting
            for replica, pods in self._attempts(uid)
            for seen in (_seen(pod, replica) for pod in pods)
        )

    def _is_not_needed(self, uid: str, replica: ReplicaId) -> bool:
        """Return whether a replica will not start again, which makes its service unnecessary."""
        status, translation = self._jobs.status(uid), self._jobs.translation(uid)
        if status is None or translation is None:
            return True
        if status.is_finished or status.holds(ConditionType.SUSPENDED):
            return True
        sizes = {role.name: role.replicas for role in translation.job.spec.roles}
        return replica.index >= sizes.get(replica.role, 0)

    def _create_object(
        self, kind: Kind, body: Object, made_from: Translation, replica: ReplicaId
    ) -> None:
        """Create an object.

        If the object already exists and belongs to the same job, take it over.
        """
        namespace, name = location_of(body)
        try:
            new = self._connection.request("POST", kind.path(namespace), body)
        except KubernetesError as error:
            if error.status != _CONFLICT or error.reason != "AlreadyExists":
                raise
            self._take_over(kind, namespace, name, made_from, replica)
            return
        self.cache.of(kind, namespace).observe(kind.named(new))
        self._record(
            made_from, f"SuccessfulCreate{kind.name}", f"Created {kind.name.lower()}", name
        )
        obj = self._jobs.find(made_from.job.uid)
        if kind is PODS and obj is not None:
            self._dropped_fields.report(obj, body, new)

    def _take_over(
        self, kind: Kind, namespace: str, name: str, made_from: Translation, replica: ReplicaId
    ) -> None:
        """Take over an existing object with this name, or raise an error that names its owner."""
        try:
            existing = kind.named(self._connection.request("GET", kind.path(namespace, name)))
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            what = f"the {kind.name.lower()} {name} still existed"
            raise NameHeld(
                what, is_notified=False
            ) from None  # the watch may already have reported the object's deletion
        wanted = job_labels(made_from.kind, made_from.job.name)
        matches = wanted.items() <= labels_of(existing).items()
        if matches and controller_of(existing) is None:
            adopted = self._ownership.adopt(kind, existing, made_from)
            if adopted is None:
                raise NameHeld(f"the {kind.name.lower()} {name} still existed")
            existing = adopted
        if not _is_owned_by(existing, made_from.job.uid):
            if "deletionTimestamp" in existing["metadata"]:
                what = f"the {kind.name.lower()} {name} is being deleted"
                raise NameHeld(what, is_notified=_is_end_observed(existing, made_from))
            raise _not_ours(kind, existing)
        if not matches:
            self._ownership.disown(kind, existing, made_from)
            raise _not_ours(kind, existing)
        self.cache.of(kind, namespace).observe(existing)
        if kind is PODS and replica_of(labels_of(existing)) != replica:
            raise NameHeld(f"the pod {name} belongs to another attempt")

    def _attempts(self, job_uid: str) -> Iterable[tuple[ReplicaId, Sequence[Object]]]:
        """Return a job's attempts, each with its pods.

        An attempt has one pod, unless a user has copied the pod.
        """
        by_attempt: dict[ReplicaId, list[Object]] = {}
        for pod in self._owned(PODS, job_uid):
            replica = replica_of(labels_of(pod))
            if replica is not None:
                by_attempt.setdefault(replica, []).append(pod)
        return by_attempt.items()

    def _current_replica(self, job: Job, replica: ReplicaId, pods: Sequence[Object]) -> Replica:
        """Return the state of an attempt, derived from its pod.

        If a user has copied the pod, delete all living copies.

        The pod that has the expected name counts as the original. If no pod has that name, the
        newest pod counts as the original.
        """
        name = replica_name(job.name, replica.role, replica.index)
        *copies, pod = sorted(
            pods,
            key=lambda candidate: (
                location_of(candidate)[1] == name,
                candidate["metadata"]["creationTimestamp"],
            ),
        )
        for copy in copies:
            seen = _seen(copy, replica)
            if not seen.phase.is_final and not seen.deleting:
                self._delete(PODS, copy, job.uid)
        return _seen(pod, replica)

    def _recreate_services(self, made_from: Translation) -> None:
        """Create deleted services again while their replicas run.

        A failure is reported once and retried in later reconciliations. The job continues.
        """
        uid = made_from.job.uid
        unserved: set[str] = set()
        has = {location_of(service)[1] for service in self._owned(SERVICES, uid)}
        for pod in self._owned(PODS, uid):
            replica = replica_of(labels_of(pod))
            if replica is None or "deletionTimestamp" in pod["metadata"]:
                continue
            name = replica_name(made_from.job.name, replica.role, replica.index)
            if name in has or read_pod_state(pod, made_from.kind.container).phase.is_final:
                continue
            if self._is_not_needed(uid, replica):
                continue
            try:
                self._create_object(SERVICES, make_service(made_from, replica), made_from, replica)
            except NameHeld:
                continue  # the previous service is still being deleted
            except WindlassError as error:
                if not _is_refusal(error):
                    raise
                unserved.add(f"creating the service {name} failed: {error}")
        self._report_unserved(uid, frozenset(unserved))

    def _report_unserved(self, uid: str, unserved: frozenset[str]) -> None:
        # This dict needs no lock, because only one worker at a time reconciles a job.
        reported = self._unserved.pop(uid, frozenset())
        if unserved:
            self._unserved[uid] = unserved
        obj = self._jobs.find(uid)
        for message in sorted(unserved - reported):
            if obj is not None:
                self._recorder.record(obj, "CreateFailed", message, kind=EventKind.WARNING)

    def _delete_stale_services(self, uid: str) -> None:
        """Delete the services of replicas that have no pod and will not start again."""
        services = list(self._owned(SERVICES, uid))
        has = {location_of(pod)[1] for pod in self._owned(PODS, uid)} if services else set()
        for service in services:
            replica = replica_of(labels_of(service))
            is_going = "deletionTimestamp" in service["metadata"]
            if replica is None or is_going or location_of(service)[1] in has:
                continue
            if self._is_not_needed(uid, replica):
                self._delete(SERVICES, service, uid)

    def _report_pending(self, job_uid: str) -> None:
        """Record events on the job's object that explain why its pods are pending."""
        obj = self._jobs.find(job_uid)
        if obj is not None:
            pending = [pod for pod in self._owned(PODS, job_uid) if is_waiting(pod)]
            self._pending.report(obj, job_uid, pending)

    def _waits_for_its_node(self, uid: str) -> bool:
        pod = self.cache.get(uid)
        return pod is not None and is_waiting(pod) and has_node(pod)

    def _delete(self, kind: Kind, obj: Object, job_uid: str) -> None:
        """Delete exactly this object and never a newer object of the same name."""
        namespace, name = location_of(obj)
        options = {"preconditions": {"uid": uid_of(obj)}}
        watcher = self.cache.of(kind, namespace)
        try:
            answer = self._connection.request("DELETE", kind.path(namespace, name), options)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            watcher.observe_deleted(obj)
            return
        if answer.get("metadata", {}).get("deletionTimestamp"):
            watcher.observe(kind.named(answer))
        job = self._jobs.find(job_uid)
        if job is not None:
            what = f"Deleted {kind.name.lower()}"
            self._recorder.record(job, f"SuccessfulDelete{kind.name}", what, name=name)

    def _owned(self, kind: Kind, uid: str) -> Iterator[Object]:
        return self.cache.matching(kind, f"uid:{uid}")

    def _record(self, made_from: Translation, reason: str, message: str, name: str) -> None:
        obj = self._jobs.find(made_from.job.uid)
        if obj is not None:
            self._recorder.record(obj, reason, message, name=name, kind=EventKind.NORMAL)


def _seen(pod: Object, replica: ReplicaId) -> Replica:
    container = _CONTAINERS.get(labels_of(pod).get(OPERATOR_NAME, ""), "")
    state = read_pod_state(pod, container)
    if state.phase is Phase.SUCCEEDED and was_deleted_before_end(pod, state):
        # A program that exits with 0 because of SIGTERM has saved its work but is not finished.
        return Replica(id=replica, phase=Phase.FAILED, reason="Evicted", deleting=True)
    is_silent = state.phase is Phase.SUCCEEDED
    return Replica(
        id=replica,
        phase=state.phase,
        exit_code=state.exit_code,
        reason="" if is_silent else state.reason,
        message=state.message,
        started=state.started,
        ended=state.ended,
        node=state.node,
        address=state.address,
        deleting=state.deleting,
    )


def _is_refusal(error: WindlassError) -> bool:
    """Return whether an error, such as a taken name or a full quota, concerns only one object.

    Other errors mean that the cluster is unreachable or busy.
    """
    is_forbidden = isinstance(error, KubernetesError) and error.status == _FORBIDDEN
    return is_forbidden or isinstance(error, NotOurs | InvalidObject)


def _is_owned_by(obj: Object, uid: str) -> bool:
    owner = controller_of(obj)
    return owner is not None and owner["uid"] == uid


def _is_end_observed(obj: Object, made_from: Translation) -> bool:
    """Return whether an object's labels or owner name the job, so that its end wakes the job."""
    wanted = job_labels(made_from.kind, made_from.job.name)
    return wanted.items() <= labels_of(obj).items() or _is_owned_by(obj, made_from.job.uid)


def _not_ours(kind: Kind, obj: Object) -> NotOurs:
    namespace, name = location_of(obj)
    owner = controller_of(obj)
    whose = (
        f"it belongs to {owner['kind']} {owner['name']}"
        if owner
        else "it does not belong to this job"
    )
    what = kind.name.lower()
    return NotOurs(
        f"the {what} {name} in namespace {namespace} already exists, and {whose}",
        hint=f"Delete it, or give the job another name: kubectl delete {what} {name} "
        f"--namespace {namespace}",
    )

"""The runtime of the operator: replicas are pods, each with a headless service of its name.

What belongs to a job is known by the uid of its owner, never by labels alone: pods of a job that
lost their owner are adopted, those whose labels say another job are released, and what somebody
else owns is never touched.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from windlass.kube.connecting import Connection
from windlass.kube.kinds import (
    PODS,
    SERVICES,
    Kind,
    Object,
    controller_of,
    labels_of,
    place_of,
    uid_of,
)
from windlass.kube.pods import state_of, was_told_to_go
from windlass.model.errors import KubernetesError, WindlassError
from windlass.model.job import Assignment, CleanPolicy, Job, JobSpec
from windlass.model.status import ConditionType, EventKind, Phase, Replica, ReplicaId
from windlass.operator.events import Recorder
from windlass.operator.jobkinds import JOB_KINDS
from windlass.operator.jobs import Jobs
from windlass.operator.making import make_pod, make_service, owner_of
from windlass.operator.names import (
    JOB_NAME,
    OPERATOR_NAME,
    job_labels,
    replica_name,
    replica_of,
)
from windlass.operator.podevents import PodEvents
from windlass.operator.translating import Translation
from windlass.operator.views import View
from windlass.operator.waiting import Waiting, has_node, is_waiting
from windlass.runtimes.protocol import NameHeld

_CONTAINERS = {kind.operator_name: kind.container for kind in JOB_KINDS}
_MERGE = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409

_log = logging.getLogger(__name__)


class NotOurs(WindlassError):
    """Something of somebody else's has the name that a replica needs."""


class Pods:
    """Replicas as pods, as `view` sees them: a `Runtime`."""

    def __init__(
        self,
        connection: Connection,
        jobs: Jobs,
        namespaces: Sequence[str] = (),
        *,
        recorder: Recorder,
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
        self._waiting = Waiting(recorder, self.events)
        self.view = View(
            connection, (PODS, SERVICES), namespaces, selector=JOB_NAME, keys=_keys,
            on_change=self._changed, on_trouble=on_trouble, clock=clock,
        )  # fmt: skip

    def validate(self, spec: JobSpec) -> list[str]:
        """Nothing: what makes no sense in an object is told when it is translated."""
        del spec
        return []

    def addresses(self, job: Job, known: Mapping[str, str]) -> dict[str, str]:
        """The names of the services, which are the same in every attempt."""
        found = self._jobs.translation(job.uid)
        return dict(known) if found is None else found.addresses

    def create(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        """Make the pod of an attempt, and the service of its replica if there is none."""
        del given  # addresses follow from names
        made_from = self._jobs.translation(job.uid)
        if made_from is None:
            return  # it is gone, and so will be all that it owns
        name = replica_name(job.name, replica.role, replica.index)
        there = self.view.at(PODS, made_from.namespace, name)
        if there is not None and self._is_in_the_way(there, made_from, replica):
            raise NameHeld(f"the pod {name} is still there", is_told=_is_told(there, made_from))
        service = self.view.at(SERVICES, made_from.namespace, name)
        if service is None or not _is_owned_by(service, job.uid):
            self._make(SERVICES, make_service(made_from, replica), made_from, replica)
        if there is None:
            self._make(PODS, make_pod(made_from, replica), made_from, replica)

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have a pod end, in the time its own template gives it."""
        del grace
        for pod in self._owned(PODS, job_uid):
            if replica_of(labels_of(pod)) == replica and "deletionTimestamp" not in pod["metadata"]:
                self._delete(PODS, pod, job_uid)
        if self._is_without(job_uid, replica):
            for service in self._owned(SERVICES, job_uid):
                found = replica_of(labels_of(service))
                if found and (found.role, found.index) == (replica.role, replica.index):
                    self._delete(SERVICES, service, job_uid)

    def list(self, job: Job) -> Sequence[Replica]:
        """The attempts of a job as its pods are now."""
        made_from = self._jobs.translation(job.uid)
        if made_from is not None:
            self._claim(made_from)
            self._serve(made_from)
            self._tell_what_waits(job.uid)
        return [self._only(job, replica, pods) for replica, pods in self._attempts(job.uid)]

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with the uid of the job that a pod or service is of."""
        self._wake = callback

    def release(self, job_uid: str) -> None:
        """A job is over: what still runs of its pods ends, and if it has expired it goes itself."""
        self._waiting.forget(job_uid)
        thing, status = self._jobs.find(job_uid), self._jobs.status(job_uid)
        made_from = self._jobs.translation(job_uid)
        if thing is None or status is None or made_from is None or not status.settled:
            return
        if made_from.job.spec.clean_policy is not CleanPolicy.NONE:
            for pod in self._owned(PODS, job_uid):  # those whose other containers run on
                is_going = "deletionTimestamp" in pod["metadata"]
                if pod.get("status", {}).get("phase") in ("Running", "Pending") and not is_going:
                    self._delete(PODS, pod, job_uid)
        if self._jobs.has_expired(thing, status):
            self._jobs.delete(job_uid)

    def close(self) -> None:
        """See nothing any more. Pods live on."""
        self.events.stop()
        self.view.stop()

    def _changed(self, before: Object | None, after: Object | None) -> None:
        for thing in (before, after):
            if thing is None:
                continue
            owner = controller_of(thing)
            if owner is not None:
                self._wake(str(owner["uid"]))
            if owner is None or after is None or before is None:
                # An orphan may be adopted, and a name that is free again be waited for.
                for uid in self._jobs.namesakes(thing):
                    self._wake(uid)

    def _is_in_the_way(self, pod: Object, made_from: Translation, replica: ReplicaId) -> bool:
        """Whether a pod must be gone before an attempt can have its name."""
        if not _is_owned_by(pod, made_from.job.uid):
            if "deletionTimestamp" in pod["metadata"]:
                return True
            raise _not_ours(PODS, pod)
        return replica_of(labels_of(pod)) != replica

    def _is_without(self, uid: str, replica: ReplicaId) -> bool:
        """Whether a replica is not to come back: nobody need find it any more."""
        status, found = self._jobs.status(uid), self._jobs.translation(uid)
        if status is None or found is None:
            return True
        if status.is_finished or status.holds(ConditionType.SUSPENDED):
            return True
        sizes = {role.name: role.replicas for role in found.job.spec.roles}
        return replica.index >= sizes.get(replica.role, 0)

    def _make(self, kind: Kind, body: Object, made_from: Translation, replica: ReplicaId) -> None:
        """Create it; what is there already and is ours is as good."""
        namespace, name = place_of(body)
        try:
            new = self._connection.request("POST", kind.path(namespace), body)
        except KubernetesError as error:
            if error.status != _CONFLICT or error.reason != "AlreadyExists":
                raise
            self._take_over(kind, namespace, name, made_from, replica)
            return
        self.view.of(kind, namespace).tell(_named(kind, new))
        self._tell(made_from, f"SuccessfulCreate{kind.name}", f"Created {kind.name.lower()}", name)

    def _take_over(
        self, kind: Kind, namespace: str, name: str, made_from: Translation, replica: ReplicaId
    ) -> None:
        """There is something of that name already: whose is it?"""
        try:
            there = _named(kind, self._connection.request("GET", kind.path(namespace, name)))
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            what = f"the {kind.name.lower()} {name} was still there"
            raise NameHeld(what, is_told=False) from None  # its end may have been told before
        wanted = job_labels(made_from.kind, made_from.job.name)
        matches = wanted.items() <= labels_of(there).items()
        if matches and controller_of(there) is None:
            adopted = self._adopt(kind, there, made_from)
            if adopted is None:
                raise NameHeld(f"the {kind.name.lower()} {name} was still there")
            there = adopted
        if not _is_owned_by(there, made_from.job.uid):
            if "deletionTimestamp" in there["metadata"]:
                what = f"the {kind.name.lower()} {name} is on its way out"
                raise NameHeld(what, is_told=_is_told(there, made_from))
            raise _not_ours(kind, there)
        if not matches:
            self._disown(kind, there, made_from)
            raise _not_ours(kind, there)
        self.view.of(kind, namespace).tell(there)
        if kind is PODS and replica_of(labels_of(there)) != replica:
            raise NameHeld(f"the pod {name} is of another attempt")

    def _claim(self, made_from: Translation) -> None:
        """Adopt what is the job's by its labels and nobody's by its owner; release the reverse."""
        job = made_from.job
        wanted = job_labels(made_from.kind, job.name)
        key = _job_key(made_from.namespace, wanted)
        for watcher in (self.view.of(kind, made_from.namespace) for kind in (PODS, SERVICES)):
            for thing in watcher.found(key):
                is_going = "deletionTimestamp" in thing["metadata"]
                if controller_of(thing) is None and not is_going and replica_of(labels_of(thing)):
                    self._adopt(watcher.kind, thing, made_from)
            for thing in watcher.found(f"uid:{job.uid}"):
                if not wanted.items() <= labels_of(thing).items():
                    self._disown(watcher.kind, thing, made_from)

    def _adopt(self, kind: Kind, thing: Object, made_from: Translation) -> Object | None:
        """Make it the job's, if the job is still the one we think it is."""
        job = self._jobs.look(made_from.job.uid)
        if job is None or "deletionTimestamp" in job["metadata"]:
            return None
        owners = [*(thing["metadata"].get("ownerReferences") or ()), owner_of(made_from)]
        adopted = self._patch_owners(kind, thing, owners)
        if adopted is not None:
            name = place_of(thing)[1]
            self._tell(made_from, f"Adopted{kind.name}", f"Adopted {kind.name.lower()}", name)
        return adopted

    def _disown(self, kind: Kind, thing: Object, made_from: Translation) -> None:
        """Its labels are another's: it is no longer the job's."""
        owners = [
            each
            for each in thing["metadata"].get("ownerReferences") or ()
            if each.get("uid") != made_from.job.uid
        ]
        if self._patch_owners(kind, thing, owners) is not None:
            name = place_of(thing)[1]
            self._tell(made_from, f"Released{kind.name}", f"Released {kind.name.lower()}", name)

    def _patch_owners(self, kind: Kind, thing: Object, owners: Sequence[Object]) -> Object | None:
        """Give it these owners, if it is unchanged; none if it is not."""
        namespace, name = place_of(thing)
        body = {
            "metadata": {
                "uid": uid_of(thing),
                "resourceVersion": thing["metadata"]["resourceVersion"],
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
            return None  # it changed: another look will see it as it is
        new = _named(kind, new)
        self.view.of(kind, namespace).tell(new)
        return new

    def _attempts(self, job_uid: str) -> Iterable[tuple[ReplicaId, Sequence[Object]]]:
        """The pods of each attempt of a job: one, unless somebody made a copy of it."""
        found: dict[ReplicaId, list[Object]] = {}
        for pod in self._owned(PODS, job_uid):
            replica = replica_of(labels_of(pod))
            if replica is not None:
                found.setdefault(replica, []).append(pod)
        return found.items()

    def _only(self, job: Job, replica: ReplicaId, pods: Sequence[Object]) -> Replica:
        """An attempt as its pod is: the one of its name, else the newest. Live copies of it go."""
        name = replica_name(job.name, replica.role, replica.index)
        *copies, pod = sorted(
            pods,
            key=lambda each: (place_of(each)[1] == name, each["metadata"]["creationTimestamp"]),
        )
        for copy in copies:
            seen = _seen(copy, replica)
            if not seen.phase.is_final and not seen.deleting:
                self._delete(PODS, copy, job.uid)
        return _seen(pod, replica)

    def _serve(self, made_from: Translation) -> None:
        """A service that somebody deleted comes back while its replica is there."""
        uid = made_from.job.uid
        has = {place_of(each)[1] for each in self._owned(SERVICES, uid)}
        for pod in self._owned(PODS, uid):
            replica = replica_of(labels_of(pod))
            if replica is None or "deletionTimestamp" in pod["metadata"]:
                continue
            name = replica_name(made_from.job.name, replica.role, replica.index)
            if name in has or state_of(pod, made_from.kind.container).phase.is_final:
                continue
            if not self._is_without(uid, replica):
                self._make(SERVICES, make_service(made_from, replica), made_from, replica)

    def _tell_what_waits(self, job_uid: str) -> None:
        """Say on the job's object why its pods do not start."""
        thing = self._jobs.find(job_uid)
        if thing is not None:
            pending = [pod for pod in self._owned(PODS, job_uid) if is_waiting(pod)]
            self._waiting.look(thing, job_uid, pending)

    def _waits_for_its_node(self, uid: str) -> bool:
        pod = self.view.get(uid)
        return pod is not None and is_waiting(pod) and has_node(pod)

    def _delete(self, kind: Kind, thing: Object, job_uid: str) -> None:
        """Delete this very object, not one that has come in its place."""
        namespace, name = place_of(thing)
        options = {"preconditions": {"uid": uid_of(thing)}}
        watcher = self.view.of(kind, namespace)
        try:
            answer = self._connection.request("DELETE", kind.path(namespace, name), options)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            watcher.tell_gone(thing)
            return
        if answer.get("metadata", {}).get("deletionTimestamp"):
            watcher.tell(_named(kind, answer))
        job = self._jobs.find(job_uid)
        if job is not None:
            what = f"Deleted {kind.name.lower()}"
            self._recorder.tell(job, f"SuccessfulDelete{kind.name}", what, name=name)

    def _owned(self, kind: Kind, uid: str) -> Iterator[Object]:
        return self.view.found(kind, f"uid:{uid}")

    def _tell(self, made_from: Translation, reason: str, message: str, name: str) -> None:
        thing = self._jobs.find(made_from.job.uid)
        if thing is not None:
            self._recorder.tell(thing, reason, message, name=name, kind=EventKind.NORMAL)


def _seen(pod: Object, replica: ReplicaId) -> Replica:
    container = _CONTAINERS.get(labels_of(pod).get(OPERATOR_NAME, ""), "")
    state = state_of(pod, container)
    if state.phase is Phase.SUCCEEDED and was_told_to_go(pod, state):
        # A program that saves its work and leaves with 0 when it is interrupted is not done.
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


def _keys(thing: Object) -> list[str]:
    owner, labels = controller_of(thing), labels_of(thing)
    keys = [_job_key(place_of(thing)[0], labels)]
    return keys if owner is None else [*keys, f"uid:{owner['uid']}"]


def _job_key(namespace: str, labels: Mapping[str, str]) -> str:
    return f"job:{namespace}/{labels.get(JOB_NAME, '')}/{labels.get(OPERATOR_NAME, '')}"


def _is_owned_by(thing: Object, uid: str) -> bool:
    owner = controller_of(thing)
    return owner is not None and owner["uid"] == uid


def _is_told(thing: Object, made_from: Translation) -> bool:
    """Whether its end wakes the job: it does if it is, or was, of a job of that name."""
    wanted = job_labels(made_from.kind, made_from.job.name)
    return wanted.items() <= labels_of(thing).items() or _is_owned_by(thing, made_from.job.uid)


def _named(kind: Kind, thing: Object) -> Object:
    thing.setdefault("apiVersion", kind.api_version)
    thing.setdefault("kind", kind.name)
    return thing


def _not_ours(kind: Kind, thing: Object) -> NotOurs:
    namespace, name = place_of(thing)
    owner = controller_of(thing)
    whose = f"it belongs to {owner['kind']} {owner['name']}" if owner else "it is not of this job"
    what = kind.name.lower()
    return NotOurs(
        f"the {what} {name} in namespace {namespace} is there already, and {whose}",
        hint=f"Delete it, or give the job another name: kubectl delete {what} {name} "
        f"--namespace {namespace}",
    )

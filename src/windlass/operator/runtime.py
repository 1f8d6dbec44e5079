"""The runtime of the operator: replicas are pods, each with a headless service of its name.

What belongs to a job is known by the uid of its owner, never by labels alone: see `claiming.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from windlass.engine.deadline import ttl_left
from windlass.kube.connecting import Connection
from windlass.kube.faults import InvalidObject
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
from windlass.operator.claiming import Claims, claim_keys
from windlass.operator.events import Recorder
from windlass.operator.ignored import Ignored
from windlass.operator.jobkinds import JOB_KINDS
from windlass.operator.jobs import Jobs
from windlass.operator.making import make_pod, make_service
from windlass.operator.names import (
    JOB_NAME,
    OPERATOR_NAME,
    job_labels,
    replica_name,
    replica_of,
)
from windlass.operator.pacing import Pacing
from windlass.operator.podevents import PodEvents
from windlass.operator.refused import problem_of
from windlass.operator.translating import Translation
from windlass.operator.views import View
from windlass.operator.waiting import Waiting, has_node, is_waiting
from windlass.runtimes.protocol import NameHeld, NotYet

_CONTAINERS = {kind.operator_name: kind.container for kind in JOB_KINDS}
_FORBIDDEN, _NOT_FOUND, _CONFLICT = 403, 404, 409

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
        self._ignored = Ignored(recorder)
        self._pacing = Pacing(recorder, clock)
        self._unserved: dict[str, frozenset[str]] = {}  # what was told of services of a job
        self.view = View(
            connection, (PODS, SERVICES), namespaces, selector=JOB_NAME, keys=claim_keys,
            on_change=self._changed, on_trouble=on_trouble, clock=clock,
        )  # fmt: skip
        self._claims = Claims(connection, jobs, self.view, tell=self._tell)

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
        if made_from is None or self._jobs.problem(made_from) is not None:
            raise NotYet("there is nothing to make it from", is_told=False)
        name = replica_name(job.name, replica.role, replica.index)
        there = self.view.at(PODS, made_from.namespace, name)
        if there is not None and self._is_in_the_way(there, made_from, replica):
            raise NameHeld(f"the pod {name} is still there", is_told=_is_told(there, made_from))
        service = self.view.at(SERVICES, made_from.namespace, name)
        try:
            if service is None or not _is_owned_by(service, job.uid):
                self._make(SERVICES, make_service(made_from, replica), made_from, replica)
            if there is None:
                self._pacing.check(job.uid, replica, name, self._jobs.find(job.uid))
                self._make(PODS, make_pod(made_from, replica), made_from, replica)
                self._pacing.made(job.uid, replica)
        except InvalidObject as refused:
            if self._has_alike(job.uid, replica.role):
                raise  # the cluster took such a one before, and may again
            self._jobs.refuse(made_from, problem_of(refused, made_from, replica))
            raise NotYet(refused.message, is_told=False) from None

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
            self._claims.look(made_from)
            self._serve(made_from)
            self._dismiss(job.uid)
            self._tell_what_waits(job.uid)
        return [self._only(job, replica, pods) for replica, pods in self._attempts(job.uid)]

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have `callback` called with the uid of the job that a pod or service is of."""
        self._wake = callback

    def release(self, job_uid: str) -> None:
        """A job is over: what still runs of its pods ends, and if it has expired it goes itself."""
        self._waiting.forget(job_uid)
        self._ignored.forget(job_uid)
        self._pacing.forget(job_uid)
        self._unserved.pop(job_uid, None)
        over = self._jobs.over(job_uid)
        if over is None:
            return
        spec, status = over
        if spec.clean_policy is not CleanPolicy.NONE:
            for pod in self._owned(PODS, job_uid):  # those whose other containers run on
                is_going = "deletionTimestamp" in pod["metadata"]
                if pod.get("status", {}).get("phase") in ("Running", "Pending") and not is_going:
                    self._delete(PODS, pod, job_uid)
        self._dismiss(job_uid)
        left = ttl_left(spec, status, time.time())
        if left is not None and left > 0:
            self._wake(job_uid)  # it was given that time just now: another look waits for its end
        elif left is not None:
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

    def _has_alike(self, uid: str, role: str) -> bool:
        """Whether another pod of a role is alive: nobody ends it because one cannot be made."""
        return any(
            replica.role == role and not seen.phase.is_final and not seen.deleting
            for replica, pods in self._attempts(uid)
            for seen in (_seen(pod, replica) for pod in pods)
        )

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
        self.view.of(kind, namespace).tell(kind.named(new))
        self._tell(made_from, f"SuccessfulCreate{kind.name}", f"Created {kind.name.lower()}", name)
        thing = self._jobs.find(made_from.job.uid)
        if kind is PODS and thing is not None:
            self._ignored.look(thing, body, new)

    def _take_over(
        self, kind: Kind, namespace: str, name: str, made_from: Translation, replica: ReplicaId
    ) -> None:
        """There is something of that name already: whose is it?"""
        try:
            there = kind.named(self._connection.request("GET", kind.path(namespace, name)))
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            what = f"the {kind.name.lower()} {name} was still there"
            raise NameHeld(what, is_told=False) from None  # its end may have been told before
        wanted = job_labels(made_from.kind, made_from.job.name)
        matches = wanted.items() <= labels_of(there).items()
        if matches and controller_of(there) is None:
            adopted = self._claims.adopt(kind, there, made_from)
            if adopted is None:
                raise NameHeld(f"the {kind.name.lower()} {name} was still there")
            there = adopted
        if not _is_owned_by(there, made_from.job.uid):
            if "deletionTimestamp" in there["metadata"]:
                what = f"the {kind.name.lower()} {name} is on its way out"
                raise NameHeld(what, is_told=_is_told(there, made_from))
            raise _not_ours(kind, there)
        if not matches:
            self._claims.disown(kind, there, made_from)
            raise _not_ours(kind, there)
        self.view.of(kind, namespace).tell(there)
        if kind is PODS and replica_of(labels_of(there)) != replica:
            raise NameHeld(f"the pod {name} is of another attempt")

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
        """A service that somebody deleted comes back while its replica is there.

        One that cannot is told, once, and tried in the looks to come: the job goes on without.
        """
        uid = made_from.job.uid
        unserved: set[str] = set()
        has = {place_of(each)[1] for each in self._owned(SERVICES, uid)}
        for pod in self._owned(PODS, uid):
            replica = replica_of(labels_of(pod))
            if replica is None or "deletionTimestamp" in pod["metadata"]:
                continue
            name = replica_name(made_from.job.name, replica.role, replica.index)
            if name in has or state_of(pod, made_from.kind.container).phase.is_final:
                continue
            if self._is_without(uid, replica):
                continue
            try:
                self._make(SERVICES, make_service(made_from, replica), made_from, replica)
            except NameHeld:
                continue  # the one before is on its way out
            except WindlassError as error:
                if not _is_refusal(error):
                    raise
                unserved.add(f"making the service {name} failed: {error}")
        self._tell_unserved(uid, frozenset(unserved))

    def _tell_unserved(self, uid: str, unserved: frozenset[str]) -> None:
        # Of each job only one worker at a time touches its entry.
        known = self._unserved.pop(uid, frozenset())
        if unserved:
            self._unserved[uid] = unserved
        thing = self._jobs.find(uid)
        for told in sorted(unserved - known):
            if thing is not None:
                self._recorder.tell(thing, "CreateFailed", told, kind=EventKind.WARNING)

    def _dismiss(self, uid: str) -> None:
        """A service goes with its replica, also with one that had no pod when its time was up."""
        services = list(self._owned(SERVICES, uid))
        has = {place_of(each)[1] for each in self._owned(PODS, uid)} if services else set()
        for service in services:
            replica = replica_of(labels_of(service))
            is_going = "deletionTimestamp" in service["metadata"]
            if replica is None or is_going or place_of(service)[1] in has:
                continue
            if self._is_without(uid, replica):
                self._delete(SERVICES, service, uid)

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
            watcher.tell(kind.named(answer))
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


def _is_refusal(error: WindlassError) -> bool:
    """Whether it is this one thing that cannot be done: another has its name, a quota is used up.

    Else the cluster is away, or busy, and nothing can be done at all.
    """
    is_forbidden = isinstance(error, KubernetesError) and error.status == _FORBIDDEN
    return is_forbidden or isinstance(error, NotOurs | InvalidObject)


def _is_owned_by(thing: Object, uid: str) -> bool:
    owner = controller_of(thing)
    return owner is not None and owner["uid"] == uid


def _is_told(thing: Object, made_from: Translation) -> bool:
    """Whether its end wakes the job: it does if it is, or was, of a job of that name."""
    wanted = job_labels(made_from.kind, made_from.job.name)
    return wanted.items() <= labels_of(thing).items() or _is_owned_by(thing, made_from.job.uid)


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

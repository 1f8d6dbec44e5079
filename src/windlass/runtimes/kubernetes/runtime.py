"""The runtime of trials in pods: what is asked of it is written down, then done in the cluster."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from windlass.kube.connecting import Connection
from windlass.kube.explaining import explain
from windlass.kube.kinds import PODS, SERVICES, Object, labels_of, place_of, uid_of
from windlass.kube.nodes import Placement
from windlass.kube.pods import state_of
from windlass.kube.watching import Watcher
from windlass.model.errors import KubernetesError, WindlassError
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.kubernetes import KubernetesOptions
from windlass.model.status import Phase, Replica, ReplicaId
from windlass.runtimes import layout
from windlass.runtimes.away import ask_for
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.attempts import PodAttempt
from windlass.runtimes.kubernetes.building import (
    AGENT_PORT,
    CONTAINER,
    GRACE,
    Claim,
    claim_of,
    has_services,
    pod_of,
    secret_of,
    service_of,
)
from windlass.runtimes.kubernetes.checking import Checks
from windlass.runtimes.kubernetes.claims import Claims
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.tunnels import Tunnels
from windlass.runtimes.kubernetes.turns import Turns

HAND_OVER = 30.0  # seconds that an agent has to hand over what is left, before it is ended
_SHORT = 5  # seconds for a pod whose program never began
_EXPLAIN_AFTER = 1.5  # seconds that a pod may take to start without a word about it
_EXPLAIN_AGAIN = 10.0
_UNHEARD = 10.0  # seconds until an agent counts as one that cannot reach the server
_INVALID = (400, 422)  # what the API will not have however often it is asked

_log = logging.getLogger(__name__)


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime needs of the server it is part of."""

    connect: Callable[[], Connection]
    worker: Callable[[], bytes]  # the program that a pod runs
    token_for: Callable[[str], str]  # what the agents of a job show; by its uid
    urls: Callable[[], Sequence[str]]  # where pods may reach the server; none: nowhere
    url: Callable[[], str]  # where the server is for this process
    image: str = ""  # for jobs that name none; else one with their Python
    tunnels: int = 4  # to each pod that cannot reach the server


class KubernetesRuntime:
    """Runs replicas in the pods of a cluster, known by their files under `home` and by label.

    No method waits for the cluster but `validate`. It keeps nothing in memory that matters:
    another one, made after this one was killed, finds the same replicas once `adopt` was called.
    """

    def __init__(self, home: Path, around: Surroundings) -> None:
        self._home = home.absolute()
        self._around = around
        self._claims = Claims(self._home)
        self._errands = Errands(on_failure=self._failed)
        self._turns = Turns()
        self._checks = Checks(around.image)
        self._tunnels = Tunnels(around.url, around.tunnels)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._watchers: dict[str, Watcher] = {}  # by namespace
        self._callbacks: list[Callable[[str], None]] = []
        self._on_orders: list[Callable[[int], None]] = []
        self._known: dict[str, dict[Path, PodAttempt]] = {}  # of each job
        self._owners: dict[str, str] = {}  # the uid of the Secret of each job
        self._reasons: dict[str, str] = {}  # why a pod does not start, by its uid

    # -- what a runtime can do ----------------------------------------------------------

    def validate(self, spec: JobSpec) -> list[str]:
        """What cannot be had there; it raises where the cluster cannot be asked."""
        problems = self._checks.problems(spec)
        if not problems:
            self._checks.ask(self._connected(), spec)
        return problems

    def watch(self, callback: Callable[[str], None]) -> None:
        """Have the uid of each job told whose replicas may have changed."""
        self._callbacks.append(callback)

    def watch_orders(self, callback: Callable[[int], None]) -> None:
        """Have the id of each trial told whose agents are told something."""
        self._on_orders.append(callback)

    def addresses(self, job: Job, known: Mapping[str, str]) -> dict[str, str]:
        """The names of the services of all replicas; one alone needs none."""
        if not has_services(job.spec):
            return dict(known)
        claim = self._claim(job)
        made = {
            f"{role.name}-{index}": naming.address_of(claim.base, claim.namespace, role.name, index)
            for role in job.spec.roles
            for index in range(role.replicas)
        }
        return {**made, **known}

    def create(self, job: Job, replica: ReplicaId, given: Assignment) -> None:
        """Have a pod made for an attempt, unless it was."""
        claim = self._claim(job)
        attempt = self._attempt(claim, job.spec, replica)
        if attempt.has_ended or attempt.was_made:
            return
        ask_for(self._home, job, replica, given)
        self._errands.forget(("release", job.uid))
        self._errands.do(("make", attempt.path), partial(self._make, claim, job, attempt))

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have an attempt end: by its agent if it has begun, else by its pod's end."""
        claim = self._claims.find(job_uid)
        if claim is None:
            return
        attempt = self._attempt(claim, None, replica)
        if not attempt.was_asked_for:
            return
        if attempt.has_ended:
            self._errands.do(("end", attempt.path), partial(self._end, claim, attempt))
            return
        attempt.tell_to_stop(grace)
        if not attempt.was_made:
            attempt.bury("Stopped", "stopped before it was started")
            self._tell(job_uid)
        for callback in self._on_orders:
            callback(claim.trial_id)
        # What has begun ends by itself, and hands over what it left; this is for what does not.
        after = grace + HAND_OVER if attempt.was_begun else 0.0
        self._errands.do(("end", attempt.path), partial(self._end, claim, attempt), after=after)

    def list(self, job: Job) -> Sequence[Replica]:
        """How each attempt of a job stands."""
        claim = self._claims.find(job.uid)
        if claim is None:
            return []
        watcher = self._watcher(claim.namespace)
        is_seen = watcher is not None and watcher.synced.is_set()
        now = time.time()
        return [
            self._observe(claim, each, watcher, is_seen=is_seen, now=now)
            for each in self._attempts(claim, job.spec)
        ]

    def release(self, job_uid: str) -> None:
        """Have all that a job has in the cluster go."""
        self._known.pop(job_uid, None)
        claim = self._claims.find(job_uid)
        if claim is not None:
            self._errands.do(("release", job_uid), partial(self._release, claim))

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over what another runtime of this home left: to be called once, at the start."""
        unfinished = {job.uid: job for job in jobs}
        for claim in self._claims.all():
            job = unfinished.get(claim.uid)
            if job is None:
                self.release(claim.uid)
                continue
            self._watch(claim.namespace)
            for attempt in self._attempts(claim, job.spec):
                if attempt.has_ended:
                    continue
                if attempt.is_told_to_stop:
                    after = attempt.time_to_stop() + HAND_OVER if attempt.was_begun else 0.0
                    end = partial(self._end, claim, attempt)
                    self._errands.do(("end", attempt.path), end, after=after)
                elif not attempt.was_made:
                    make = partial(self._make, claim, job, attempt)
                    self._errands.do(("make", attempt.path), make)

    def has(self, job_uid: str) -> bool:
        """Whether a job has anything in the cluster, or is to have."""
        return self._claims.find(job_uid) is not None

    def close(self) -> None:
        """Let go of the cluster. Pods live on."""
        self._errands.close()
        self._tunnels.close()
        with self._lock:
            watchers, self._watchers = list(self._watchers.values()), {}
            connection, self._connection = self._connection, None
        for watcher in watchers:
            watcher.stop()
        if connection is not None:
            connection.close()

    # -- what is known of attempts ------------------------------------------------------

    def _claim(self, job: Job) -> Claim:
        found = self._claims.find(job.uid)
        if found is None:
            options = job.spec.roles[0].kubernetes or KubernetesOptions()
            namespace = options.namespace or self._connected().namespace
            found = claim_of(job, namespace, self._claims.identity)
            self._claims.keep(found)
        return found

    def _attempt(self, claim: Claim, spec: JobSpec | None, replica: ReplicaId) -> PodAttempt:
        path = layout.attempt_dir(self._home, claim.trial_id, replica)
        known = self._known.setdefault(claim.uid, {})
        if path not in known:
            address = ""
            if spec is not None and has_services(spec):
                address = naming.address_of(
                    claim.base, claim.namespace, replica.role, replica.index
                )
            known[path] = PodAttempt(claim.uid, replica, path, address)
        return known[path]

    def _attempts(self, claim: Claim, spec: JobSpec) -> Iterable[PodAttempt]:
        for replica, _ in layout.attempts(self._home, claim.trial_id):
            attempt = self._attempt(claim, spec, replica)
            if attempt.was_asked_for and attempt.is_of(claim.uid):
                yield attempt

    def _observe(
        self,
        claim: Claim,
        attempt: PodAttempt,
        watcher: Watcher | None,
        *,
        is_seen: bool,
        now: float,
    ) -> Replica:
        name = naming.pod_name(claim.base, attempt.replica)
        # Before the look: a pod that is made between the two is not one that is gone.
        was_made = attempt.was_made
        pod = None if watcher is None else watcher.at(claim.namespace, name)
        seen = attempt.observe(
            pod,
            is_seen=is_seen and was_made,
            waits_for=self._waits_for(attempt, pod, watcher),
            unseen=_trouble_of(watcher),
            now=now,
        )
        if pod is None:
            if seen.phase.is_final:
                self._owners.pop(claim.uid, None)  # it may be gone as well
            return seen
        if (at := attempt.settles_at(pod)) is not None:
            self._look_later(claim.uid, max(at - now, 0.0))
        if seen.phase.is_final and not state_of(pod, CONTAINER).phase.is_final:
            if self._is_over_late(attempt, pod, now):
                end = partial(self._end, claim, attempt, grace=0)
                self._errands.do(("end", attempt.path), end)
        elif seen.phase is Phase.PENDING and not seen.deleting:
            self._explain_soon(claim, attempt, pod)
        return seen

    def _is_over_late(self, attempt: PodAttempt, pod: Object, now: float) -> bool:
        """Whether a pod outlived its attempt for longer than it takes to leave."""
        ended = attempt.observe(pod, is_seen=True, waits_for="", now=now).ended
        return ended is None or now > ended + HAND_OVER

    def _waits_for(self, attempt: PodAttempt, pod: Object | None, watcher: Watcher | None) -> str:
        """What there is to say of one that has not begun."""
        trouble = self._errands.trouble_of(("make", attempt.path))
        if pod is None and trouble:
            return trouble
        reason = "" if pod is None else self._reasons.get(uid_of(pod), "")
        return _trouble_of(watcher) or reason

    def _look_later(self, uid: str, after: float) -> None:
        key: Hashable = ("look", uid)
        if not self._errands.is_wanted(key):
            self._errands.do(key, partial(self._tell, uid), after=after + 0.05)

    def _tell(self, uid: str) -> None:
        for callback in list(self._callbacks):
            callback(uid)

    def _failed(self, key: Hashable) -> None:
        """Something could not be done: whoever waits for it is to see why."""
        if isinstance(key, tuple) and key[0] == "make":
            folder = key[1]
            for uid, known in list(self._known.items()):
                if folder in known:
                    self._tell(uid)

    # -- what is done in the cluster ----------------------------------------------------

    def _connected(self) -> Connection:
        """The connection, made when it is first needed, and anew after a login."""
        with self._lock:
            outdated: list[Watcher] = []
            if self._connection is None or self._connection.is_outdated:
                # First of all: what cannot be had now leaves everything as it is.
                self._connection = self._around.connect()
                outdated = list(self._watchers.values())
                self._watchers = {}
            connection = self._connection
        if outdated:
            self._tunnels.drop_all()  # they are opened anew by the first look at each pod
        for watcher in outdated:
            watcher.stop(timeout=0)
            self._watch(watcher.namespace)
        return connection

    def _watcher(self, namespace: str) -> Watcher | None:
        with self._lock:
            found = self._watchers.get(namespace)
        if found is None:
            self._watch(namespace)
        return found

    def _watch(self, namespace: str) -> None:
        """Have the pods of a namespace seen, as soon as that can be."""
        if namespace not in self._watchers:
            self._errands.do(("watch", namespace), partial(self._begin_watch, namespace))

    def _begin_watch(self, namespace: str) -> Watcher:
        connection = self._connected()
        with self._lock:
            if namespace in self._watchers:
                return self._watchers[namespace]
            made = Watcher(
                connection,
                PODS,
                namespace=namespace,
                selector=f"{naming.HOME}={self._claims.identity}",
                on_change=self._pod_changed,
                on_trouble=lambda _error: self._tell_all(namespace),
            )
            self._watchers[namespace] = made
        made.start()
        # All that went while nobody looked is known to be gone only then.
        self._errands.do(("synced", namespace), partial(self._tell_when_synced, made))
        return made

    def _tell_when_synced(self, watcher: Watcher) -> None:
        if watcher.synced.wait(1.0) or watcher is not self._watchers.get(watcher.namespace):
            self._tell_all(watcher.namespace)
        else:
            again = partial(self._tell_when_synced, watcher)
            self._errands.do(("synced", watcher.namespace), again, after=0.2)

    def _tell_all(self, namespace: str) -> None:
        for claim in self._claims.all():
            if claim.namespace == namespace:
                self._tell(claim.uid)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None  # noqa: S101 -- one of them is there
        labels = labels_of(pod)
        uid = labels.get(naming.UID, "")
        if after is None:
            self._reasons.pop(uid_of(pod), None)
        self._keep_tunnels(uid, pod, is_there=after is not None)
        self._tell(uid)

    def _keep_tunnels(self, uid: str, pod: Object, *, is_there: bool) -> None:
        """Reach the agents that cannot reach us, while they run."""
        is_running = is_there and state_of(pod, CONTAINER).phase is Phase.RUNNING
        if not is_running:
            self._tunnels.drop(uid_of(pod))
            return
        if not self._around.urls():
            self._open_tunnels(uid, pod)
            return
        key: Hashable = ("unheard", uid_of(pod))
        if not self._errands.is_wanted(key) and not self._tunnels.has(uid_of(pod)):
            self._errands.do(key, partial(self._open_if_unheard, uid, pod), after=_UNHEARD)

    def _open_if_unheard(self, uid: str, pod: Object) -> None:
        claim, replica = self._claims.find(uid), naming.replica_of(labels_of(pod))
        if claim is None or replica is None:
            return
        attempt = self._attempt(claim, None, replica)
        watcher = self._watchers.get(claim.namespace)
        there = watcher.get(uid_of(pod)) if watcher else None
        if there is None or attempt.has_ended or attempt.was_begun:
            return
        if state_of(there, CONTAINER).phase is Phase.RUNNING:
            self._open_tunnels(uid, pod)

    def _open_tunnels(self, uid: str, pod: Object) -> None:
        connection = self._connection
        if connection is not None and self._is_ours(uid, pod):
            self._tunnels.keep(
                uid_of(pod),
                connection,
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                self._around.token_for(uid),
            )

    def _is_ours(self, uid: str, pod: Object) -> bool:
        """Whether it is where that trial's is: a stranger's with our labels is told no token."""
        claim, replica = self._claims.find(uid), naming.replica_of(labels_of(pod))
        if claim is None or replica is None:
            return False
        where = (claim.namespace, naming.pod_name(claim.base, replica))
        return place_of(pod) == where

    def _make(self, claim: Claim, job: Job, attempt: PodAttempt) -> None:
        """Make the pod of an attempt, with all that it needs."""
        with self._turns.together(claim.uid):
            # A job that was released has no claim: nobody would remove what it had from now on.
            is_claimed = self._claims.find(claim.uid) is not None
            if is_claimed and not attempt.is_unwanted() and not attempt.was_made:
                self._make_now(claim, job, attempt)

    def _make_now(self, claim: Claim, job: Job, attempt: PodAttempt) -> None:
        connection = self._connected()
        watcher = self._begin_watch(claim.namespace)
        if attempt.was_taken_up:
            # Whoever made it was killed before that was noted: made again it would run twice.
            pod = self._find(connection, claim, attempt)
            gone = "its pod is gone, and nobody here had it removed"
            end = None if pod is not None else ("Lost", gone)
        else:
            pod, end = self._make_pod(connection, claim, job, attempt.replica)
        if end is not None:
            attempt.bury(*end)
        if pod is not None:
            watcher.tell(pod)  # first: whoever knows that it was made is to see it
            attempt.note_made(pod)
            if attempt.is_unwanted():  # by now
                self._errands.do(("end", attempt.path), partial(self._end, claim, attempt))
        self._tell(claim.uid)

    def _find(self, connection: Connection, claim: Claim, attempt: PodAttempt) -> Object | None:
        name = naming.pod_name(claim.base, attempt.replica)
        found = objects.look(connection, PODS, claim.namespace, name)
        is_ours = found is not None and labels_of(found).get(naming.UID) == claim.uid
        return found if is_ours else None

    def _make_pod(
        self, connection: Connection, claim: Claim, job: Job, replica: ReplicaId
    ) -> tuple[Object | None, tuple[str, str] | None]:
        """The pod of an attempt, or why there will never be one: reason and message."""
        owner = self._owner(connection, claim)
        if has_services(job.spec):
            service = service_of(claim, replica.role, replica.index, owner)
            objects.make(connection, SERVICES, service)
        wanted = pod_of(
            claim,
            job,
            replica,
            owner,
            placement=self._placement(connection, job.spec, replica.role),
            image=self._around.image,
        )
        try:
            return objects.make(connection, PODS, wanted), None
        except KubernetesError as error:
            if error.status not in _INVALID:
                raise
            return None, ("StartFailed", error.message)  # asked again it would be the same

    def _owner(self, connection: Connection, claim: Claim) -> str:
        """The uid of the Secret that owns all that a job has."""
        if claim.uid not in self._owners:
            settings: dict[str, Any] = {
                "uid": claim.uid,
                "trial_id": claim.trial_id,
                "token": self._around.token_for(claim.uid),
                "urls": list(self._around.urls()),
                "port": AGENT_PORT,
            }
            secret = secret_of(claim, self._around.worker(), settings)
            self._owners[claim.uid] = uid_of(objects.make(connection, objects.SECRETS, secret))
        return self._owners[claim.uid]

    def _placement(self, connection: Connection, spec: JobSpec, role: str) -> Placement:
        return self._checks.placement(connection, spec.role(role))

    def _end(self, claim: Claim, attempt: PodAttempt, grace: int | None = None) -> None:
        """Have the pod of an attempt go."""
        connection = self._connected()
        name = naming.pod_name(claim.base, attempt.replica)
        pod = objects.look(connection, PODS, claim.namespace, name)
        if pod is None:
            watcher = self._begin_watch(claim.namespace)
            gone = watcher.at(claim.namespace, name)
            if gone is not None:
                watcher.tell_gone(gone)
        elif labels_of(pod).get(naming.UID) == claim.uid:
            if grace is None:
                grace = _grace_of(attempt, pod)
            objects.remove(connection, PODS, pod, grace=grace)
        self._tell(claim.uid)

    def _release(self, claim: Claim) -> None:
        """Have all that a job has go, when nothing more is being made for it."""
        with self._turns.alone(claim.uid):
            connection = self._connected()
            owner = objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
            if owner is not None and labels_of(owner).get(naming.UID) == claim.uid:
                objects.remove(connection, objects.SECRETS, owner)
            self._owners.pop(claim.uid, None)
            self._claims.drop(claim.uid)

    # -- why a pod does not start -------------------------------------------------------

    def _explain_soon(self, claim: Claim, attempt: PodAttempt, pod: Object) -> None:
        key: Hashable = ("explain", uid_of(pod))
        if self._errands.is_wanted(key):
            return
        after = _EXPLAIN_AGAIN if uid_of(pod) in self._reasons else _EXPLAIN_AFTER
        self._errands.do(key, partial(self._explain, claim, attempt, uid_of(pod)), after=after)

    def _explain(self, claim: Claim, attempt: PodAttempt, pod_uid: str) -> None:
        watcher = self._watcher(claim.namespace)
        pod = None if watcher is None else watcher.get(pod_uid)
        if pod is None or attempt.was_begun or attempt.has_ended:
            self._reasons.pop(pod_uid, None)
            return
        if state_of(pod, CONTAINER).phase is not Phase.PENDING:
            told = "reaching its agent"
        else:
            try:
                events = objects.events_of(self._connected(), pod)
            except WindlassError as error:
                _log.info("events of %s: %s", pod["metadata"]["name"], error.message)
                events = []
            found = explain(pod, events, time.time())
            told = "" if found is None else str(found)
        if self._reasons.get(pod_uid, "") != told:
            self._reasons[pod_uid] = told
            self._tell(claim.uid)
        self._explain_soon_again(claim, attempt, pod_uid)

    def _explain_soon_again(self, claim: Claim, attempt: PodAttempt, pod_uid: str) -> None:
        key: Hashable = ("explain", pod_uid)
        again = partial(self._explain, claim, attempt, pod_uid)
        self._reasons.setdefault(pod_uid, "")
        self._errands.do(key, again, after=_EXPLAIN_AGAIN)


def _grace_of(attempt: PodAttempt, pod: Object) -> int:
    """How many seconds a pod has to leave in.

    None if no program was started in it: a kubelet that waits for an image may take a minute to
    see that it is not wanted any more. One that starts nevertheless is told so by the server.
    """
    if attempt.was_begun and not attempt.has_ended:
        return GRACE
    return 0 if state_of(pod, CONTAINER).started is None else _SHORT


def _trouble_of(watcher: Watcher | None) -> str:
    """Why nothing new is seen of the pods of a namespace, if nothing is."""
    trouble = None if watcher is None else watcher.trouble
    return "" if trouble is None else trouble.message

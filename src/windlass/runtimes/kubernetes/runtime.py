"""The runtime of trials in pods: what is asked of it is written down, then done in the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path

from windlass.kube.kinds import Object, labels_of
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.kubernetes import KubernetesOptions
from windlass.model.status import Replica, ReplicaId
from windlass.runtimes.away import ask_for
from windlass.runtimes.kubernetes import naming
from windlass.runtimes.kubernetes.abroad import HOW_TO_LOOK_THERE, told_of_left
from windlass.runtimes.kubernetes.attempts import HAND_OVER
from windlass.runtimes.kubernetes.building import Claim, claim_of, has_services
from windlass.runtimes.kubernetes.checking import Checks
from windlass.runtimes.kubernetes.claims import Claims
from windlass.runtimes.kubernetes.deeds import Deeds
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.known import KnownAttempts
from windlass.runtimes.kubernetes.observing import Observing
from windlass.runtimes.kubernetes.reaching import Reaching
from windlass.runtimes.kubernetes.sight import Sight
from windlass.runtimes.kubernetes.surroundings import Surroundings
from windlass.runtimes.kubernetes.tunnels import Tunnels

_ABROAD = 5.0  # seconds between two looks at one that is to end where nobody looks


class KubernetesRuntime:
    """Runs replicas in the pods of a cluster, known by their files under `home` and by label.

    No method waits for the cluster, or for a login to it, but `validate`; for a namespace that
    nobody named `create` and `addresses` wait for seconds at most. It keeps nothing in memory that
    matters: another one, made after this one was killed, finds the same replicas once `adopt` was
    called.
    """

    def __init__(self, home: Path, around: Surroundings) -> None:
        self._home = home.absolute()
        self._claims = Claims(self._home)
        self._known = KnownAttempts(self._home, around.clock)
        self._errands = Errands(on_failure=self._failed)
        self._checks = Checks(around.image)
        self._tunnels = Tunnels(around.url, around.tunnels)
        self._sight = Sight(
            around.connect,
            self._claims,
            self._errands,
            on_pod=self._pod_changed,
            on_login=self._tunnels.drop_all,  # opened anew by the first look at each pod
            tell=self._tell,
        )
        self._reaching = Reaching(
            around, self._tunnels, self._claims, self._known, self._errands, self._sight
        )
        self._deeds = Deeds(
            around, self._claims, self._errands, self._sight, self._checks, self._tell
        )
        self._observing = Observing(self._errands, self._sight, self._deeds, self._tell)
        self._callbacks: list[Callable[[str], None]] = []
        self._on_orders: list[Callable[[int], None]] = []

    def validate(self, spec: JobSpec) -> list[str]:
        """What cannot be had there; it raises where the cluster cannot be asked."""
        problems = self._checks.problems(spec)
        if not problems:
            self._checks.ask(self._sight.connected(), spec)
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
        attempt = self._known.one(claim, job.spec, replica)
        if attempt.has_ended or attempt.was_made:
            return
        ask_for(self._home, job, replica, given)
        self._deeds.make(claim, job, attempt)

    def delete(self, job_uid: str, replica: ReplicaId, grace: float) -> None:
        """Have an attempt end: by its agent if it has begun, else by its pod's end."""
        claim = self._claims.find(job_uid)
        if claim is None:
            return
        attempt = self._known.one(claim, None, replica)
        if not attempt.was_asked_for:
            return
        if attempt.has_ended:
            self._deeds.end(claim, attempt)
            return
        attempt.tell_to_stop(grace)
        if not attempt.was_made:
            attempt.bury_unstarted()
            self._tell(job_uid)
        for callback in self._on_orders:
            callback(claim.trial_id)
        # What has begun ends by itself, and hands over what it left; this is for what does not.
        after = grace + HAND_OVER if attempt.was_begun else 0.0
        self._deeds.end(claim, attempt, after=after)

    def give_up(self, job_uid: str) -> None:
        """Have a job that is being stopped end without its cluster, should that not answer.

        What it has there goes when the cluster is back: its claim stays until then.
        """
        self._claims.change(job_uid, is_given_up=True)
        claim = self._claims.find(job_uid)
        if claim is not None:
            self._sight.reach(claim)

    def list(self, job: Job) -> Sequence[Replica]:
        """How each attempt of a job stands."""
        claim = self._claims.find(job.uid)
        if claim is None:
            return []
        attempts = [*self._known.all(claim, job.spec)]
        # The watch first: of two clusters, one after the other, this is not the newer one's.
        watcher = self._sight.now(claim.namespace)
        abroad = self._sight.abroad(claim)
        now = time.time()
        if claim.is_given_up and (why := abroad or self._why_away(claim)):
            is_news = not all(each.has_ended for each in attempts)
            seen = [each.give_up(told_of_left(claim, why)) for each in attempts]
            for callback in self._on_orders if is_news else ():
                callback(claim.trial_id)
            return seen
        if abroad:
            told, left = f"{abroad}: {HOW_TO_LOOK_THERE}", told_of_left(claim, abroad)
            seen = [each.observe_abroad(told, left, now) for each in attempts]
            if any(each.deleting for each in seen):  # nothing tells when their time is up
                self._observing.look_later(job.uid, _ABROAD)
            return seen
        if abroad is not None:  # else there may be nothing of it there to see
            self._sight.watch(claim.namespace)
        is_seen = watcher is not None and watcher.synced.is_set() and abroad is not None
        return [
            self._observing.observe(claim, each, watcher, is_seen=is_seen, now=now)
            for each in attempts
        ]

    def release(self, job_uid: str) -> None:
        """Have all that a job has in the cluster go."""
        self._known.forget(job_uid)
        claim = self._claims.find(job_uid)
        if claim is not None:
            self._deeds.release(claim)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over what another runtime of this home left: to be called once, at the start."""
        unfinished = {job.uid: job for job in jobs}
        for claim in self._claims.all():
            job = unfinished.get(claim.uid)
            if job is None:
                self.release(claim.uid)
                continue
            if claim.is_given_up:
                self._sight.reach(claim)
            for attempt in self._known.all(claim, job.spec):
                if attempt.has_ended:
                    continue
                if attempt.is_told_to_stop:
                    after = attempt.time_to_stop() + HAND_OVER if attempt.was_begun else 0.0
                    self._deeds.end(claim, attempt, after=after)
                elif not attempt.was_made:
                    self._deeds.make(claim, job, attempt)

    def has(self, job_uid: str) -> bool:
        """Whether a job has anything in the cluster, or is to have."""
        return self._claims.find(job_uid) is not None

    def close(self) -> None:
        """Let go of the cluster. Pods live on."""
        self._deeds.close()
        self._observing.close()
        self._tunnels.close()
        self._sight.close()

    def _why_away(self, claim: Claim) -> str:
        """Why the cluster of a job does not answer, if it does not."""
        trouble = self._sight.trouble(claim)
        return "" if trouble.is_busy else trouble.message

    def _claim(self, job: Job) -> Claim:
        found = self._claims.find(job.uid)
        if found is None:
            options = job.spec.roles[0].kubernetes or KubernetesOptions()
            namespace = options.namespace or self._sight.connected_soon().namespace
            found = claim_of(job, namespace, self._claims.identity)  # where is noted as it begins
            self._claims.keep(found)
        return found

    def _tell(self, uid: str) -> None:
        for callback in list(self._callbacks):
            callback(uid)

    def _failed(self, key: Hashable) -> None:
        """Something could not be done: whoever waits for it is to see why."""
        if not isinstance(key, tuple):
            return
        what, which, *_ = key
        if what == "make":
            for uid in self._known.jobs_with(which):
                self._tell(uid)
        elif what == "watch":
            self._sight.tell_all(which)
        elif what in ("abroad", "reach"):
            self._tell(which)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None  # noqa: S101 -- one of them is there
        uid = labels_of(pod).get(naming.UID, "")
        if after is None:
            self._observing.forget(pod)
        self._reaching.see(uid, pod, is_there=after is not None)
        self._tell(uid)

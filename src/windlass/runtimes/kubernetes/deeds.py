"""What is done in the cluster for a job: its pods made and ended, all that it has released.

Each is an errand: it may fail, and is then done again from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from windlass.kube.connecting import Connection
from windlass.kube.explanation import told_of_error
from windlass.kube.kinds import PODS, SERVICES, Object, labels_of, uid_of
from windlass.kube.pods import state_of
from windlass.model.errors import KubernetesError
from windlass.model.job import Job
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.attempts import PodAttempt
from windlass.runtimes.kubernetes.building import (
    AGENT_PORT,
    CONTAINER,
    Claim,
    has_services,
    pod_of,
    secret_of,
    service_of,
)
from windlass.runtimes.kubernetes.checking import Checks
from windlass.runtimes.kubernetes.claims import Claims
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.obstacles import Obstacles
from windlass.runtimes.kubernetes.sight import Sight
from windlass.runtimes.kubernetes.surroundings import Surroundings
from windlass.runtimes.kubernetes.turns import Turns

_SHORT = 5  # seconds for a pod whose program never began
_INVALID = (400, 422)  # what the API will not have however often it is asked
_REFUSED = range(400, 500)  # it was understood, and nothing was made


class Deeds:
    """Makes, ends and releases; whoever asks for it does not wait."""

    def __init__(
        self,
        around: Surroundings,
        claims: Claims,
        errands: Errands,
        sight: Sight,
        checks: Checks,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` is called with the uid of a job for which something was done."""
        self._around = around
        self._claims = claims
        self._errands = errands
        self._sight = sight
        self._checks = checks
        self._tell = tell
        self._turns = Turns()
        self._owning = Turns()
        self._obstacles = Obstacles(errands)
        self._owners: dict[str, str] = {}  # the uid of the Secret of each job
        self._gone: set[Path] = set()  # the folders of attempts whose pods were looked for

    def make(self, claim: Claim, job: Job, attempt: PodAttempt) -> None:
        """Have a pod made for an attempt, with all that it needs."""
        self._errands.forget(("release", claim.uid))
        self._errands.do(("make", attempt.path), partial(self._make, claim, job, attempt))

    def why_not_made(self, attempt: PodAttempt) -> str:
        """Why there is no pod for it yet, if that was tried, and what to do."""
        return self._errands.failure(("make", attempt.path)).told

    def end(
        self, claim: Claim, attempt: PodAttempt, *, after: float = 0.0, grace: int | None = None
    ) -> None:
        """Have the pod of an attempt go, after so many seconds."""
        end = partial(self._end, claim, attempt, grace)
        self._errands.do(("end", attempt.path), end, after=after)

    def is_gone(self, claim: Claim, attempt: PodAttempt) -> bool:
        """Whether a pod that is not seen is not there; if that is not known yet, it is looked for.

        One that runs on unseen is ended first: two attempts of a replica never run at a time.
        """
        if attempt.path in self._gone:
            self._gone.discard(attempt.path)
            return True
        key = ("gone", attempt.path)
        if not self._errands.is_wanted(key):
            self._errands.do(key, partial(self._look_for, claim, attempt))
        return False

    def release(self, claim: Claim) -> None:
        """Have all that a job has go."""
        self._errands.do(("release", claim.uid), partial(self._release, claim))

    def forget_owner(self, claim: Claim) -> None:
        """What owns all that a job has may be gone: see when it is next needed."""
        self._owners.pop(claim.uid, None)

    def close(self) -> None:
        """Begin nothing more."""
        self._errands.close()
        self._obstacles.close()

    def _make(self, claim: Claim, job: Job, attempt: PodAttempt) -> None:
        with self._turns.together(claim.uid):
            # A job that was released has no claim: nobody would remove what it had from now on.
            now = self._claims.find(claim.uid)
            is_to_be = not attempt.is_unwanted() and not attempt.was_made
            key = ("make", attempt.path)
            try:
                if now is not None and is_to_be:
                    self._make_now(now, job, attempt)
            except objects.NameTaken as error:
                if error.kind is PODS:  # of other kinds nobody may be allowed to watch any
                    connection = self._sight.connected()
                    self._obstacles.wait_for(key, connection, error.namespace, error.name)
                raise
            self._obstacles.forget(key)

    def _make_now(self, claim: Claim, job: Job, attempt: PodAttempt) -> None:
        connection = self._sight.connected_for(claim)
        watcher = self._sight.begin_watch(claim.namespace)
        for before in attempt.left_before():
            self._see_gone(connection, claim, before)
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
                self.end(claim, attempt)
        self._tell(claim.uid)

    def _see_gone(self, connection: Connection, claim: Claim, attempt: PodAttempt) -> None:
        """Two attempts of a replica never run at a time: this one was not seen to end."""
        pod = self._find(connection, claim, attempt)
        if pod is not None and not state_of(pod, CONTAINER).phase.is_final:
            objects.remove(connection, PODS, pod)
            raise KubernetesError("the pod of its attempt before is still there, and is to go")

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
        role = job.spec.role(replica.role)
        before = claim.placements.get(role.name)
        where, is_guess = self._checks.placement_of_attempt(connection, role, before)
        if role.resources.accelerator is not None and not is_guess:
            self._claims.place(claim.uid, role.name, where)
        image = self._around.image
        wanted = pod_of(claim, job, replica, owner, placement=where, image=image)
        try:
            return objects.make(connection, PODS, wanted), None
        except KubernetesError as error:
            if error.status not in _INVALID:
                raise
            return None, ("StartFailed", told_of_error(error))  # asked again it would be the same

    def _owner(self, connection: Connection, claim: Claim) -> str:
        """The uid of the Secret that owns all that a job has."""
        with self._owning.alone(claim.uid):
            known = self._owners.get(claim.uid)
            if known is None:
                known = self._owners[claim.uid] = uid_of(self._make_owner(connection, claim))
            return known

    def _make_owner(self, connection: Connection, claim: Claim) -> Object:
        settings: dict[str, Any] = {
            "uid": claim.uid,
            "trial_id": claim.trial_id,
            "token": self._around.token_for(claim.uid),
            "urls": list(self._around.urls()),
            "port": AGENT_PORT,
        }
        secret = secret_of(claim, self._around.worker(), settings)
        now = self._claims.find(claim.uid)  # another replica's try may have changed it
        is_first = now is not None and not now.is_begun
        if is_first:
            # One that does not answer this is not asked for more: nothing of the job is there.
            objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
            self._claims.change(claim.uid, is_begun=True, server=connection.place)
        try:
            return objects.make(connection, objects.SECRETS, secret)
        except KubernetesError as error:
            if is_first and error.status in _REFUSED:
                self._claims.change(claim.uid, is_begun=False)
            raise

    def _look_for(self, claim: Claim, attempt: PodAttempt) -> None:
        connection = self._sight.connected_for(claim)
        name = naming.pod_name(claim.base, attempt.replica)
        pod = objects.look(connection, PODS, claim.namespace, name)
        is_there = pod is not None and attempt.has_pod(pod)
        if pod is not None and is_there and not state_of(pod, CONTAINER).phase.is_final:
            labels = labels_of(pod)
            seen_by = (labels.get(naming.UID), labels.get(naming.HOME))
            if seen_by != (claim.uid, self._claims.identity):
                objects.remove(connection, PODS, pod)
            elif self._is_seen(claim, pod):
                self._tell(claim.uid)
                return
            raise KubernetesError("its pod is not seen, and is still there")
        if not attempt.has_ended:
            self._gone.add(attempt.path)
            self._tell(claim.uid)

    def _is_seen(self, claim: Claim, pod: Object) -> bool:
        """Whether the watch tells of a pod again: then nobody need look for it."""
        watcher = self._sight.now(claim.namespace)
        return watcher is not None and watcher.get(uid_of(pod)) is not None

    def _end(self, claim: Claim, attempt: PodAttempt, grace: int | None) -> None:
        claim = self._claims.find(claim.uid) or claim
        if not claim.is_begun:
            return
        connection = self._sight.connected_for(claim)
        # The watch tells why a silent cluster is waited for.
        watcher = self._sight.begin_watch(claim.namespace)
        name = naming.pod_name(claim.base, attempt.replica)
        pod = objects.look(connection, PODS, claim.namespace, name)
        if pod is None:
            gone = watcher.at(claim.namespace, name)
            if gone is not None:
                watcher.tell_gone(gone)
        elif labels_of(pod).get(naming.UID) == claim.uid:
            if grace is None:
                grace = _grace_of(attempt, pod)
            objects.remove(connection, PODS, pod, grace=grace)
        self._tell(claim.uid)

    def _release(self, claim: Claim) -> None:
        with self._turns.alone(claim.uid):  # when nothing more is being made for it
            now = self._claims.find(claim.uid)
            if now is not None and now.is_begun:
                self._remove_owner(now)
            self._owners.pop(claim.uid, None)
            self._claims.drop(claim.uid)

    def _remove_owner(self, claim: Claim) -> None:
        """Have the Secret of a job go, and with it all that it owns.

        Of a claim that does not know its cluster nobody could tell another place to look in.
        """
        is_known = bool(claim.server)
        connection = self._sight.connected_for(claim) if is_known else self._sight.connected()
        owner = objects.look(connection, objects.SECRETS, claim.namespace, claim.base)
        if owner is not None and labels_of(owner).get(naming.UID) == claim.uid:
            objects.remove(connection, objects.SECRETS, owner)


def _grace_of(attempt: PodAttempt, pod: Object) -> int | None:
    """How many seconds a pod has to leave in; none for those that its agent was told of.

    No time at all if no program was started in it: a kubelet that waits for an image may take a
    minute to see that it is not wanted any more. One that starts nevertheless is told so by the
    server.
    """
    if attempt.was_begun and not attempt.has_ended:
        return None
    return 0 if state_of(pod, CONTAINER).started is None else _SHORT

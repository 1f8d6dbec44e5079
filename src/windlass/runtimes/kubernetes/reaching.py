"""Reaching the agents that cannot reach the server: tunnels to their pods, while these run."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from windlass.kube.kinds import Object, labels_of, place_of, uid_of
from windlass.kube.pods import state_of
from windlass.model.status import Phase
from windlass.runtimes.kubernetes import naming
from windlass.runtimes.kubernetes.building import CONTAINER
from windlass.runtimes.kubernetes.claims import Claims
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.known import KnownAttempts
from windlass.runtimes.kubernetes.sight import Sight
from windlass.runtimes.kubernetes.surroundings import Surroundings
from windlass.runtimes.kubernetes.tunnels import Tunnels

_UNHEARD = 10.0  # seconds until an agent counts as one that cannot reach the server


class Reaching:
    """Opens tunnels to agents that were not heard of, and drops those of pods that ended."""

    def __init__(
        self,
        around: Surroundings,
        tunnels: Tunnels,
        claims: Claims,
        known: KnownAttempts,
        errands: Errands,
        sight: Sight,
    ) -> None:
        self._around = around
        self._tunnels = tunnels
        self._claims = claims
        self._known = known
        self._errands = errands
        self._sight = sight

    def see(self, uid: str, pod: Object, *, is_there: bool) -> None:
        """A pod of a job has changed, or is gone."""
        is_running = is_there and state_of(pod, CONTAINER).phase is Phase.RUNNING
        if not is_running:
            self._tunnels.drop(uid_of(pod))
            return
        if not self._around.urls():
            self._open(uid, pod)
            return
        key: Hashable = ("unheard", uid_of(pod))
        if not self._errands.is_wanted(key) and not self._tunnels.has(uid_of(pod)):
            self._errands.do(key, partial(self._open_if_unheard, uid, pod), after=_UNHEARD)

    def _open_if_unheard(self, uid: str, pod: Object) -> None:
        claim, replica = self._claims.find(uid), naming.replica_of(labels_of(pod))
        if claim is None or replica is None:
            return
        attempt = self._known.one(claim, None, replica)
        watcher = self._sight.now(claim.namespace)
        there = watcher.get(uid_of(pod)) if watcher else None
        if there is None or attempt.has_ended or attempt.was_begun:
            return
        if state_of(there, CONTAINER).phase is Phase.RUNNING:
            self._open(uid, pod)

    def _open(self, uid: str, pod: Object) -> None:
        connection = self._sight.connection
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

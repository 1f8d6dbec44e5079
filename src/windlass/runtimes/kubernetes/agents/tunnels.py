"""Opens tunnels to running pods whose agents cannot reach the server."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from windlass.kube.api.resource_kinds import Object, labels_of, location_of, uid_of
from windlass.kube.pod_state import read_pod_state
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes.kubernetes.agents.port_forward import Tunnels
from windlass.runtimes.kubernetes.attempts.index import AttemptIndex
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import CONTAINER, JobRecord
from windlass.runtimes.kubernetes.retry_queue import RetryQueue
from windlass.runtimes.kubernetes.server_context import KubernetesContext

UNHEARD = 10.0  # seconds after which a silent new agent counts as unable to reach the server
# The same limit for an agent that has sent requests, because it polls every 25 seconds.
SILENT = 40.0


class AgentTunnels:
    """Opens tunnels to silent agents and closes the tunnels to finished pods.

    A tunnel stays open for as long as its pod runs, because requests that arrive through the tunnel
    do not show whether the agent could reach the server directly.
    """

    def __init__(
        self,
        context: KubernetesContext,
        tunnels: Tunnels,
        records: JobRecords,
        attempts: AttemptIndex,
        retries: RetryQueue,
        view: ClusterView,
    ) -> None:
        self._context = context
        self._tunnels = tunnels
        self._records = records
        self._attempts = attempts
        self._retries = retries
        self._view = view
        # The time at which each pod was first seen running, by pod uid, and the uids of the pods
        # that can reach the server only through a tunnel.
        self._since: dict[str, float] = {}
        self._cut_off: set[str] = set()

    def observe(self, uid: str, pod: Object, *, is_there: bool) -> None:
        """Open, close or schedule a tunnel to the agent in a job's pod.

        Called after the pod has changed.
        """
        if not is_there:
            self._forget(pod)
        elif not _is_running(pod):
            self._tunnels.drop(uid_of(pod))
            self._since.pop(uid_of(pod), None)
        elif not self._context.urls() or uid_of(pod) in self._cut_off:
            self._open(uid, pod)
        else:
            now = self._context.clock()
            since = self._since.setdefault(uid_of(pod), now)
            self._check_later(uid, pod, since + UNHEARD - now)

    def check(self, uid: str, pod: Object) -> None:
        """Open a tunnel to a running pod whose agent is silent, and schedule the next check."""
        record, replica = self._records.find(uid), pod_names.replica_of(labels_of(pod))
        if record is None or replica is None:
            self._forget(pod)
            return
        watcher = self._view.now(record.namespace)
        if watcher is None or not watcher.synced.is_set():
            # Without a synced watch, it is unknown whether the pod exists.
            self._check_later(uid, pod, SILENT)
            return
        there = watcher.get(uid_of(pod))
        if there is None:
            self._forget(pod)
        elif _is_running(there):  # `observe` is called when a pod starts to run again
            self._check_later(uid, there, self._open_if_silent(uid, there, record, replica))

    def _open_if_silent(
        self, uid: str, pod: Object, record: JobRecord, replica: ReplicaId
    ) -> float:
        """Open a tunnel if the agent was silent for too long.

        Return the seconds until the next check.
        """
        attempt = self._attempts.one(record, None, replica)
        if attempt.has_ended:
            return SILENT  # the pod will not run for much longer
        now = self._context.clock()
        since = self._since.setdefault(uid_of(pod), now)
        last_seen = self._context.last_seen.last(uid, replica)
        left = given_up_at(since, last_seen, is_new=not attempt.was_taken_up) - now
        if left > 0 and uid_of(pod) not in self._cut_off:
            return left
        self._cut_off.add(uid_of(pod))
        self._open(uid, pod)
        return SILENT

    def _check_later(self, uid: str, pod: Object, after: float) -> None:
        key: Hashable = ("unheard", uid_of(pod))
        self._retries.do(key, partial(self.check, uid, pod), after=max(after, 0.0))

    def _forget(self, pod: Object) -> None:
        self._tunnels.drop(uid_of(pod))
        self._since.pop(uid_of(pod), None)
        self._cut_off.discard(uid_of(pod))

    def _open(self, uid: str, pod: Object) -> None:
        connection = self._view.connection
        if connection is not None and self._is_ours(uid, pod):
            self._tunnels.keep(
                uid_of(pod),
                connection,
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                self._context.token_for(uid),
            )

    def _is_ours(self, uid: str, pod: Object) -> bool:
        """Return whether the pod has the name that we gave it.

        Agents get a token through the tunnel, and the token must never reach somebody else's pod.
        """
        record, replica = self._records.find(uid), pod_names.replica_of(labels_of(pod))
        if record is None or replica is None:
            return False
        where = (record.namespace, pod_names.pod_name(record.base, replica))
        return location_of(pod) == where


def given_up_at(since: float, last_seen: float | None, *, is_new: bool) -> float:
    """Return the time at which a silent agent counts as unable to reach the server.

    `since` is the time at which this process first saw the agent's pod running. An agent that
    contacted an earlier server process gets more time than a new agent, because it may first have
    to notice that a new server process uses the address.

    >>> given_up_at(100.0, None, is_new=True), given_up_at(100.0, None, is_new=False)
    (110.0, 140.0)
    >>> given_up_at(100.0, 125.0, is_new=False)
    165.0
    """
    if last_seen is None:
        return since + (UNHEARD if is_new else SILENT)
    return max(since, last_seen) + SILENT


def _is_running(pod: Object) -> bool:
    return read_pod_state(pod, CONTAINER).phase is Phase.RUNNING

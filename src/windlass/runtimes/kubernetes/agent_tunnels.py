"""Tunnels to the running pods whose agents cannot reach the server."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from windlass.kube.api.resource_kinds import Object, labels_of, location_of, uid_of
from windlass.kube.pod_state import state_of
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes.kubernetes import names as pod_names
from windlass.runtimes.kubernetes.attempt_index import AttemptIndex
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.manifests import CONTAINER, JobRecord
from windlass.runtimes.kubernetes.port_forward import Tunnels
from windlass.runtimes.kubernetes.retry_queue import RetryQueue
from windlass.runtimes.kubernetes.server_context import KubernetesContext

UNHEARD = 10.0  # seconds until a new agent counts as one that cannot reach the server
SILENT = 40.0  # the same of one that was heard of: it asks for orders every 25 seconds


class AgentTunnels:
    """Opens tunnels to agents that are not heard of, and drops those of pods that ended.

    A tunnel stays for as long as its pod runs: what comes by it says nothing of other ways.
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
        # By the uids of pods: since when each is seen to run, and which have no other way to us.
        self._since: dict[str, float] = {}
        self._cut_off: set[str] = set()

    def observe(self, uid: str, pod: Object, *, is_there: bool) -> None:
        """A pod of a job has changed, or is gone."""
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
        """Open a tunnel to a pod whose agent is silent, and look again for as long as it runs."""
        record, replica = self._records.find(uid), pod_names.replica_of(labels_of(pod))
        if record is None or replica is None:
            self._forget(pod)
            return
        watcher = self._view.now(record.namespace)
        if watcher is None or not watcher.synced.is_set():
            self._check_later(uid, pod, SILENT)  # nobody can tell whether it is there
            return
        there = watcher.get(uid_of(pod))
        if there is None:
            self._forget(pod)
        elif _is_running(there):  # else it is seen once it does again
            self._check_later(uid, there, self._open_if_silent(uid, there, record, replica))

    def _open_if_silent(
        self, uid: str, pod: Object, record: JobRecord, replica: ReplicaId
    ) -> float:
        """Open a tunnel if it is time for that; the seconds until it may be."""
        attempt = self._attempts.one(record, None, replica)
        if attempt.has_ended:
            return SILENT  # it will not run for much longer
        now = self._context.clock()
        since = self._since.setdefault(uid_of(pod), now)
        heard = self._context.heard.last(uid, replica)
        left = given_up_at(since, heard, is_new=not attempt.was_taken_up) - now
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
        """Whether it is where that trial's is: a stranger's with our labels is told no token."""
        record, replica = self._records.find(uid), pod_names.replica_of(labels_of(pod))
        if record is None or replica is None:
            return False
        where = (record.namespace, pod_names.pod_name(record.base, replica))
        return location_of(pod) == where


def given_up_at(since: float, heard: float | None, *, is_new: bool) -> float:
    """When an agent counts as one that cannot reach the server, if nothing more is heard of it.

    Its pod runs `since` then, as far as this process has seen. One that was heard of by a server
    before has more time than a new one: it may have to find out first that this is another.

    >>> given_up_at(100.0, None, is_new=True), given_up_at(100.0, None, is_new=False)
    (110.0, 140.0)
    >>> given_up_at(100.0, 125.0, is_new=False)
    165.0
    """
    if heard is None:
        return since + (UNHEARD if is_new else SILENT)
    return max(since, heard) + SILENT


def _is_running(pod: Object) -> bool:
    return state_of(pod, CONTAINER).phase is Phase.RUNNING

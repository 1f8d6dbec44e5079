"""The Kubernetes runtime, which stores each request on disk before it changes the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path

from windlass.kube.api.connection import connect, connection_settings
from windlass.kube.api.resource_kinds import Object, labels_of
from windlass.model.job import Assignment, Job, JobSpec
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import Replica, ReplicaId
from windlass.runtimes.base import AttemptProcess, ServerContext
from windlass.runtimes.kubernetes.agents.port_forward import Tunnels
from windlass.runtimes.kubernetes.agents.tunnels import AgentTunnels
from windlass.runtimes.kubernetes.attempts.index import AttemptIndex
from windlass.runtimes.kubernetes.attempts.observe_attempt import AttemptObserver
from windlass.runtimes.kubernetes.attempts.pod_attempt import HAND_OVER
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord, has_services, job_record
from windlass.runtimes.kubernetes.objects.preview_manifests import preset_image
from windlass.runtimes.kubernetes.other_cluster import HOW_TO_CONNECT_THERE, abandoned_message
from windlass.runtimes.kubernetes.pod_actions import PodActions
from windlass.runtimes.kubernetes.retry_queue import RetryQueue
from windlass.runtimes.kubernetes.server_context import KubernetesContext
from windlass.runtimes.kubernetes.submit_checks import SubmitChecks
from windlass.runtimes.remote_attempt import ask_for
from windlass.runtimes.worker_zip import worker_zip

_RECHECK = 5.0  # seconds between checks of stopping attempts in another cluster


def create_runtime(server: ServerContext) -> KubernetesRuntime:
    """Create the Kubernetes runtime of a server."""
    context = KubernetesContext(
        connect=lambda: connect(home=server.home),
        settings=lambda: connection_settings(server.home),
        worker=worker_zip,
        token_for=server.token_for,
        urls=server.urls,
        url=server.url,
        image=preset_image(),
    )
    return KubernetesRuntime(server.home.path, context)


class KubernetesRuntime:
    """Runs replicas in the pods of a cluster.

    The runtime finds replicas by their files under `home` and by the labels of their pods. Only
    `validate` waits for the cluster or for a login, except that `create` and `addresses` may wait a
    few seconds for the default namespace. All important state is on disk. After a crash, a new
    instance finds the same replicas once `adopt` has been called.
    """

    def __init__(self, home: Path, context: KubernetesContext) -> None:
        self._home = home.absolute()
        self._records = JobRecords(self._home)
        self._attempts = AttemptIndex(self._home, context.clock)
        self._retries = RetryQueue(on_failure=self._failed)
        self._checks = SubmitChecks(context.image)
        self._tunnels = Tunnels(context.url, context.tunnels)
        self._view = ClusterView(
            context.connect,
            context.settings,
            self._records,
            self._retries,
            on_pod=self._pod_changed,
            # the next observation of a pod opens its tunnel again
            on_login=self._tunnels.drop_all,
            notify=self._notify,
        )
        self._agent_tunnels = AgentTunnels(
            context, self._tunnels, self._records, self._attempts, self._retries, self._view
        )
        self._actions = PodActions(
            context, self._records, self._retries, self._view, self._checks, self._notify
        )
        self._observer = AttemptObserver(self._retries, self._view, self._actions, self._notify)
        self._callbacks: list[Callable[[str], None]] = []
        self._on_orders: list[Callable[[int], None]] = []

    def validate(self, spec: JobSpec) -> list[str]:
        """Return the options that pods do not support. Raise if the cluster does not respond."""
        problems = self._checks.problems(spec)
        if not problems:
            self._checks.check(self._view.connected(), spec)
        return problems

    def watch(self, callback: Callable[[str], None]) -> None:
        """Call `callback` with the uid of each job whose replicas may have changed."""
        self._callbacks.append(callback)

    def watch_trials(self, callback: Callable[[int], None]) -> None:
        """Call `callback` with a trial's id if its agents have a new order, such as to stop."""
        self._on_orders.append(callback)

    def addresses(self, job: Job, assigned: Mapping[str, str]) -> dict[str, str]:
        """Return the service addresses of a job's replicas.

        The result is empty if no replica needs an address.
        """
        if not has_services(job.spec):
            return dict(assigned)
        record = self._record(job)
        made = {
            f"{role.name}-{index}": pod_names.address_of(
                record.base, record.namespace, role.name, index
            )
            for role in job.spec.roles
            for index in range(role.replicas)
        }
        return {**made, **assigned}

    def create(self, job: Job, replica: ReplicaId, assignment: Assignment) -> None:
        """Create an attempt's pod unless the pod exists or the attempt has ended."""
        record = self._record(job)
        attempt = self._attempts.one(record, job.spec, replica)
        if attempt.has_ended or attempt.was_made:
            return
        ask_for(self._home, job, replica, assignment)
        self._actions.make(record, job, attempt)

    def delete(
        self, job: Job, replica: ReplicaId, grace: float, *, interrupt: bool = False
    ) -> None:
        """Stop an attempt through its agent, if the agent has started.

        If the agent has not started, delete the pod.
        """
        record = self._records.find(job.uid)
        if record is None:
            return
        attempt = self._attempts.one(record, None, replica)
        if not attempt.was_requested:
            return
        if attempt.has_ended:
            self._actions.end(record, attempt)
            return
        attempt.request_stop(grace, interrupt=interrupt)
        if not attempt.was_made:
            attempt.record_never_started()
            self._notify(job.uid)
        for callback in self._on_orders:
            callback(record.trial_id)
        # A started attempt ends by itself and uploads its results. This task deletes the pod if it
        # does not end.
        after = grace + HAND_OVER if attempt.was_begun else 0.0
        self._actions.end(record, attempt, after=after)

    def give_up(self, job_uid: str) -> None:
        """End a job that is being stopped, even if its cluster does not respond.

        The job record is kept until the cluster responds again and the job's objects are deleted.
        """
        self._records.change(job_uid, is_given_up=True)
        record = self._records.find(job_uid)
        if record is not None:
            self._view.reach(record)

    def list(self, job: Job) -> Sequence[Replica]:
        """Return the state of each attempt of a job."""
        record = self._records.find(job.uid)
        if record is None:
            return []
        attempts = [*self._attempts.all(record, job.spec)]
        # Read the watch before checking the cluster. If the connection changes in between, the new
        # cluster's watch must not be used here.
        watcher = self._view.now(record.namespace)
        elsewhere = self._view.elsewhere(record)
        now = time.time()
        if record.is_given_up and (why := elsewhere or self._why_unreachable(record)):
            is_news = not all(attempt.has_ended for attempt in attempts)
            seen = [attempt.give_up(abandoned_message(record, why)) for attempt in attempts]
            for callback in self._on_orders if is_news else ():
                callback(record.trial_id)
            return seen
        if elsewhere:
            message = f"{elsewhere}: {HOW_TO_CONNECT_THERE}"
            abandoned = abandoned_message(record, elsewhere)
            seen = [attempt.observe_elsewhere(message, abandoned, now) for attempt in attempts]
            # No event reports the end of these attempts' grace period.
            if any(replica.deleting for replica in seen):
                self._observer.reconcile_after(job.uid, _RECHECK)
            return seen
        if elsewhere is not None:  # None means that the job may be in a different cluster
            self._view.watch(record.namespace)
        is_seen = watcher is not None and watcher.synced.is_set() and elsewhere is not None
        return [
            self._observer.observe(record, attempt, watcher, is_seen=is_seen, now=now)
            for attempt in attempts
        ]

    def release(self, job_uid: str) -> None:
        """Delete all of a job's objects in the cluster."""
        self._attempts.forget(job_uid)
        record = self._records.find(job_uid)
        if record is not None:
            self._actions.release(record)

    def adopt(self, jobs: Iterable[Job]) -> None:
        """Take over the jobs of an earlier runtime of this home.

        Call this method once, when the server starts.
        """
        unfinished = {job.uid: job for job in jobs}
        for record in self._records.all():
            job = unfinished.get(record.uid)
            if job is None:
                self.release(record.uid)
                continue
            if record.is_given_up:
                self._view.reach(record)
            for attempt in self._attempts.all(record, job.spec):
                if attempt.has_ended:
                    continue
                if attempt.is_stop_requested:
                    after = attempt.time_to_stop() + HAND_OVER if attempt.was_begun else 0.0
                    self._actions.end(record, attempt, after=after)
                elif not attempt.was_made:
                    self._actions.make(record, job, attempt)

    def process_of(self, job: Job, replica: ReplicaId) -> AttemptProcess:
        """Return an empty result, because a pod has no process on the server's machine."""
        del job, replica
        return AttemptProcess()

    def close(self) -> None:
        """Close the connection to the cluster. Pods continue to run."""
        self._actions.close()
        self._observer.close()
        self._tunnels.close()
        self._view.close()

    def _why_unreachable(self, record: JobRecord) -> str:
        """Return the reason why a job's cluster does not respond, or "" if it does."""
        trouble = self._view.trouble(record)
        return "" if trouble.is_busy else trouble.message

    def _record(self, job: Job) -> JobRecord:
        record = self._records.find(job.uid)
        if record is None:
            options = job.spec.roles[0].kubernetes or KubernetesOptions()
            namespace = options.namespace or self._view.connected_soon().namespace
            record = job_record(
                job, namespace, self._records.identity
            )  # the record does not name a cluster until the job starts
            self._records.keep(record)
        return record

    def _notify(self, uid: str) -> None:
        for callback in list(self._callbacks):
            callback(uid)

    def _failed(self, key: Hashable) -> None:
        """Have the jobs that wait for a failed task reconciled, so that their messages show why."""
        if not isinstance(key, tuple):
            return
        what, which, *_ = key
        if what == "make":
            for uid in self._attempts.jobs_with(which):
                self._notify(uid)
        elif what == "watch":
            self._view.notify_namespace(which)
        elif what in ("abroad", "reach"):
            self._notify(which)

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        pod = after or before
        assert pod is not None  # noqa: S101 -- at least one of the two is set
        uid = labels_of(pod).get(pod_names.UID, "")
        if after is None:
            self._observer.forget(pod)
        self._agent_tunnels.observe(uid, pod, is_there=after is not None)
        self._notify(uid)

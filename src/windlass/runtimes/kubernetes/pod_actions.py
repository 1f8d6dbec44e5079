"""Creates and deletes pods, and deletes all of a job's objects in the cluster.

Each action is a task in the retry queue. If an action fails, the queue repeats it from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import PODS, SERVICES, Object, labels_of, uid_of
from windlass.kube.explanation import one_line_error
from windlass.kube.pod_state import read_pod_state
from windlass.model.errors import KubernetesError
from windlass.model.job import Job
from windlass.model.status import ReplicaId
from windlass.runtimes.kubernetes.attempts.pod_attempt import PodAttempt
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.job_locks import JobLocks
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.name_conflicts import NameConflicts
from windlass.runtimes.kubernetes.objects import api_objects
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import (
    AGENT_PORT,
    CONTAINER,
    JobRecord,
    build_pod,
    build_secret,
    build_service,
    has_services,
)
from windlass.runtimes.kubernetes.retry_queue import RetryQueue
from windlass.runtimes.kubernetes.server_context import KubernetesContext
from windlass.runtimes.kubernetes.submit_checks import SubmitChecks

_SHORT = 5  # grace period in seconds for a started pod in which no program runs
_INVALID = (400, 422)  # retrying a request with one of these responses would fail again
_REFUSED = range(400, 500)  # the API understood the request and created nothing


class PodActions:
    """Creates and deletes pods in the background, so that callers do not wait."""

    def __init__(
        self,
        context: KubernetesContext,
        records: JobRecords,
        retries: RetryQueue,
        view: ClusterView,
        checks: SubmitChecks,
        notify: Callable[[str], None],
    ) -> None:
        """Set up the actions. `notify` gets a job's uid whenever one of its actions has ended."""
        self._context = context
        self._records = records
        self._retries = retries
        self._view = view
        self._checks = checks
        self._notify = notify
        self._locks = JobLocks()
        self._owner_locks = JobLocks()
        self._conflicts = NameConflicts(retries)
        self._owners: dict[str, str] = {}  # the uid of each job's Secret
        self._gone: set[Path] = set()  # the folders of attempts whose pods a search did not find

    def make(self, record: JobRecord, job: Job, attempt: PodAttempt) -> None:
        """Create an attempt's pod and all other objects that the pod needs."""
        self._retries.forget(("release", record.uid))
        self._retries.do(("make", attempt.path), partial(self._make, record, job, attempt))

    def why_not_made(self, attempt: PodAttempt) -> str:
        """Return the reason why the attempt has no pod yet, or "" if creating it has not failed.

        The reason ends with a hint.
        """
        return self._retries.failure(("make", attempt.path)).message_with_hint

    def end(
        self,
        record: JobRecord,
        attempt: PodAttempt,
        *,
        after: float = 0.0,
        grace: int | None = None,
    ) -> None:
        """Delete an attempt's pod after `after` seconds."""
        end = partial(self._end, record, attempt, grace)
        self._retries.do(("end", attempt.path), end, after=after)

    def is_gone(self, record: JobRecord, attempt: PodAttempt) -> bool:
        """Return whether a pod that the watch does not contain is known to be deleted.

        If that is unknown, this method starts a search in the background and returns False.

        If the search finds that the pod still runs, it stops the pod, because two attempts of the
        same replica must never run at the same time.
        """
        if attempt.path in self._gone:
            self._gone.discard(attempt.path)
            return True
        key = ("gone", attempt.path)
        if not self._retries.is_wanted(key):
            self._retries.do(key, partial(self._search_pod, record, attempt))
        return False

    def release(self, record: JobRecord) -> None:
        """Delete all objects of a job in the cluster."""
        self._retries.do(("release", record.uid), partial(self._release, record))

    def forget_owner(self, record: JobRecord) -> None:
        """Forget the cached uid of a job's Secret, because the Secret may have been deleted.

        The next use queries the uid again.
        """
        self._owners.pop(record.uid, None)

    def close(self) -> None:
        """Start no more actions in the cluster."""
        self._retries.close()
        self._conflicts.close()

    def _make(self, record: JobRecord, job: Job, attempt: PodAttempt) -> None:
        with self._locks.shared(record.uid):
            # A released job has no record. If an object were created now, nothing would delete it.
            now = self._records.find(record.uid)
            is_to_be = not attempt.is_unwanted() and not attempt.was_made
            key = ("make", attempt.path)
            try:
                if now is not None and is_to_be:
                    self._create_now(now, job, attempt)
            except api_objects.NameTaken as error:
                if error.kind is PODS:  # watching other kinds may need an additional permission
                    connection = self._view.connected()
                    self._conflicts.wait_for(key, connection, error.namespace, error.name)
                raise
            self._conflicts.forget(key)

    def _create_now(self, record: JobRecord, job: Job, attempt: PodAttempt) -> None:
        connection = self._view.connected_for(record)
        watcher = self._view.begin_watch(record.namespace)
        for before in attempt.left_before():
            self._ensure_gone(connection, record, before)
        if attempt.was_taken_up:
            # An earlier process created the pod and was killed before it recorded that. A second
            # pod would run the program twice.
            pod = self._find(connection, record, attempt)
            gone = "its pod was deleted, but not by Windlass"
            end = None if pod is not None else ("Lost", gone)
        else:
            pod, end = self._make_pod(connection, record, job, attempt.replica)
        if end is not None:
            attempt.record_end(*end)
        if pod is not None:
            # before `note_made`, because the watch must contain the pod by then
            watcher.observe(pod)
            attempt.note_made(pod)
            if attempt.is_unwanted():  # it became unwanted in the meantime
                self.end(record, attempt)
        self._notify(record.uid)

    def _ensure_gone(self, connection: Connection, record: JobRecord, attempt: PodAttempt) -> None:
        """Delete the pod of an earlier attempt whose end was never observed.

        Two attempts of the same replica must never run at the same time.
        """
        pod = self._find(connection, record, attempt)
        if pod is not None and not read_pod_state(pod, CONTAINER).phase.is_final:
            api_objects.remove(connection, PODS, pod)
            raise KubernetesError("the pod of its previous attempt is still being deleted")

    def _find(
        self, connection: Connection, record: JobRecord, attempt: PodAttempt
    ) -> Object | None:
        name = pod_names.pod_name(record.base, attempt.replica)
        pod = api_objects.find(connection, PODS, record.namespace, name)
        is_ours = pod is not None and labels_of(pod).get(pod_names.UID) == record.uid
        return pod if is_ours else None

    def _make_pod(
        self, connection: Connection, record: JobRecord, job: Job, replica: ReplicaId
    ) -> tuple[Object | None, tuple[str, str] | None]:
        """Create an attempt's pod.

        Return the pod, or a reason and message if creating it can never succeed.
        """
        owner = self._owner(connection, record)
        if has_services(job.spec):
            service = build_service(record, replica.role, replica.index, owner)
            api_objects.make(connection, SERVICES, service)
        role = job.spec.role(replica.role)
        before = record.placements.get(role.name)
        where, is_guess = self._checks.placement_of_attempt(connection, role, before)
        if role.resources.accelerator is not None and not is_guess:
            self._records.place(record.uid, role.name, where)
        image = self._context.image
        wanted = build_pod(record, job, replica, owner, placement=where, image=image)
        try:
            return api_objects.make(connection, PODS, wanted), None
        except KubernetesError as error:
            if error.status not in _INVALID:
                raise
            # A retry would fail in the same way.
            return None, ("StartFailed", one_line_error(error))

    def _owner(self, connection: Connection, record: JobRecord) -> str:
        """Return the uid of the Secret that owns all of a job's other objects.

        Create the Secret if necessary.
        """
        with self._owner_locks.exclusive(record.uid):
            owner = self._owners.get(record.uid)
            if owner is None:
                owner = self._owners[record.uid] = uid_of(self._make_owner(connection, record))
            return owner

    def _make_owner(self, connection: Connection, record: JobRecord) -> Object:
        settings: dict[str, Any] = {
            "uid": record.uid,
            "trial_id": record.trial_id,
            "token": self._context.token_for(record.uid),
            "urls": list(self._context.urls()),
            "port": AGENT_PORT,
        }
        secret = build_secret(record, self._context.worker(), settings)
        # Another replica's thread may have changed the record.
        now = self._records.find(record.uid)
        is_first = now is not None and not now.is_begun
        if is_first:
            # This request tests the connection. If it fails, the job still has no objects in the
            # cluster.
            api_objects.find(connection, api_objects.SECRETS, record.namespace, record.base)
            self._records.change(record.uid, is_begun=True, server=connection.address)
        try:
            return api_objects.make(connection, api_objects.SECRETS, secret)
        except KubernetesError as error:
            if is_first and error.status in _REFUSED:
                self._records.change(record.uid, is_begun=False)
            raise

    def _search_pod(self, record: JobRecord, attempt: PodAttempt) -> None:
        connection = self._view.connected_for(record)
        name = pod_names.pod_name(record.base, attempt.replica)
        pod = api_objects.find(connection, PODS, record.namespace, name)
        is_there = pod is not None and attempt.has_pod(pod)
        if pod is not None and is_there and not read_pod_state(pod, CONTAINER).phase.is_final:
            labels = labels_of(pod)
            seen_by = (labels.get(pod_names.UID), labels.get(pod_names.HOME))
            if seen_by != (record.uid, self._records.identity):
                api_objects.remove(connection, PODS, pod)
            elif self._is_seen(record, pod):
                self._notify(record.uid)
                return
            raise KubernetesError("its pod still exists but is not visible")
        if not attempt.has_ended:
            self._gone.add(attempt.path)
            self._notify(record.uid)

    def _is_seen(self, record: JobRecord, pod: Object) -> bool:
        """Return whether the watch contains a pod again, so that no search for it is needed."""
        watcher = self._view.now(record.namespace)
        return watcher is not None and watcher.get(uid_of(pod)) is not None

    def _end(self, record: JobRecord, attempt: PodAttempt, grace: int | None) -> None:
        record = self._records.find(record.uid) or record
        if not record.is_begun:
            return
        connection = self._view.connected_for(record)
        # If the cluster does not respond, the watch will report the reason.
        watcher = self._view.begin_watch(record.namespace)
        name = pod_names.pod_name(record.base, attempt.replica)
        pod = api_objects.find(connection, PODS, record.namespace, name)
        if pod is None:
            gone = watcher.at(record.namespace, name)
            if gone is not None:
                watcher.observe_deleted(gone)
        elif labels_of(pod).get(pod_names.UID) == record.uid:
            if grace is None:
                grace = _grace_of(attempt, pod)
            api_objects.remove(connection, PODS, pod, grace=grace)
        self._notify(record.uid)

    def _release(self, record: JobRecord) -> None:
        with self._locks.exclusive(record.uid):  # waits until no object of the job is being created
            now = self._records.find(record.uid)
            if now is not None and now.is_begun:
                self._remove_owner(now)
            self._owners.pop(record.uid, None)
            self._records.drop(record.uid)

    def _remove_owner(self, record: JobRecord) -> None:
        """Delete a job's Secret and thereby all objects that the Secret owns."""
        connection = self._view.connected_for(record)
        owner = api_objects.find(connection, api_objects.SECRETS, record.namespace, record.base)
        if owner is not None and labels_of(owner).get(pod_names.UID) == record.uid:
            api_objects.remove(connection, api_objects.SECRETS, owner)


def _grace_of(attempt: PodAttempt, pod: Object) -> int | None:
    """Return how many seconds a pod has to end, or None for the pod's own grace period.

    A pod whose container never started has no grace period, because a kubelet that waits for an
    image might take a minute to notice the deletion. If the agent starts nevertheless, the server
    tells it to stop. If the container started but no program runs in it, the grace period is short.
    """
    if attempt.was_begun and not attempt.has_ended:
        return None
    return 0 if read_pod_state(pod, CONTAINER).started is None else _SHORT

"""The server's view of a cluster: one connection and a pod watch per namespace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.api.connection import Connection
from windlass.kube.api.login_commands import end_logins
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.shared_attempt import SharedAttempt
from windlass.kube.api.watch import Change, Watcher
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.objects import api_objects
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import JobRecord
from windlass.runtimes.kubernetes.other_cluster import (
    HOW_TO_CONNECT_THERE,
    OtherClusters,
    elsewhere_message,
)
from windlass.runtimes.kubernetes.retry_queue import TOO_MANY, RetryQueue, TaskFailure, to_failure

_SOON = 2.0  # seconds that a caller that also serves other jobs may wait for a login
_SHARED = 1.0  # seconds for which callers share a slow login's failure
_LONGEST = 400  # the most characters of an error message, without its hint


class ClusterView:
    """The connection to a cluster and the watches of the cluster's pods.

    They are created on first use and again after each login.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        settings: Callable[[], Hashable],
        records: JobRecords,
        retries: RetryQueue,
        *,
        on_pod: Change,
        on_login: Callable[[], None],
        notify: Callable[[str], None],
    ) -> None:
        """Set up the view. `on_pod` gets changed pods, and `notify` gets possibly changed jobs."""
        self._connect = connect
        self._settings = settings
        self._records = records
        self._retries = retries
        self._on_pod = on_pod
        self._on_login = on_login
        self._notify = notify
        self._other_clusters = OtherClusters()
        # This lock is only ever held briefly, because every reconciliation takes it and must not
        # wait for a login.
        self._lock = threading.RLock()
        self._renewal = SharedAttempt(self._renew)
        self._failure: KubernetesError | None = None  # the failure of the newest attempt to connect
        self._shared_until = 0.0
        self._failed_with: Hashable = None  # the settings with which that attempt failed
        self._connection: Connection | None = None
        self._watchers: dict[str, Watcher] = {}  # by namespace

    @property
    def connection(self) -> Connection | None:
        """The current connection to the cluster, or None before the first connection."""
        return self._connection

    def connected(self) -> Connection:
        """Return the connection. Connect first if there is none or if a login has outdated it.

        The call can take as long as a login program runs, so only callers that can wait can use it.
        Callers that wait at the same time share one login and its failure, unless the settings
        change.
        """
        if connection := self._current():
            return connection
        is_shared = time.monotonic() < self._shared_until
        if self._failure is not None and is_shared and self._settings() == self._failed_with:
            raise self._failure
        return self._renewal.result()

    def connected_soon(self) -> Connection:
        """Return the connection within seconds, or the previous one if a login takes longer.

        Raises an error if there is no previous connection. Later calls use the newest connection.
        """
        if connection := self._current():
            return connection
        failure = self._failure or KubernetesError(
            "There is no connection to the cluster yet: the login program takes longer than usual."
        )
        try:
            # After a failure, do not wait. The next caller gets this attempt's result.
            connection = self._renewal.soon(0.0 if self._failure else _SOON)
        except KubernetesError as error:
            failure = error
        if connection := connection or self._connection:
            return connection
        raise failure

    def _current(self) -> Connection | None:
        connection = self._connection
        return None if connection is None or connection.is_outdated else connection

    def _renew(self) -> Connection:
        if current := self._current():
            return current  # another attempt created this connection a moment ago
        began, settings = time.monotonic(), self._settings()
        try:
            connection = self._connect()
        except KubernetesError as error:  # keep the previous connection and watches
            ended = time.monotonic()
            self._failed_with = settings
            self._shared_until = ended + _SHARED if ended - began > _SOON else 0.0
            self._failure = error
            raise
        with self._lock:
            self._failure = None
            self._connection = connection
            outdated, self._watchers = list(self._watchers.values()), {}
            if outdated:  # before any watch starts with the new connection
                self._on_login()
        for watcher in outdated:
            watcher.stop(timeout=0)
            self.notify_namespace(watcher.namespace)  # so that the jobs there are reconciled
        return connection

    def connected_for(self, record: JobRecord) -> Connection:
        """Return the cluster connection, or raise an error if the job is in another cluster."""
        connection = self.connected()
        if self._is_abroad(record, connection):
            raise KubernetesError(
                elsewhere_message(record, connection.server), hint=HOW_TO_CONNECT_THERE
            )
        return connection

    def elsewhere(self, record: JobRecord) -> str | None:
        """Return "" if a job is in the connected cluster, or a message if it is in another cluster.

        Returns None until the job's cluster is known.
        """
        connection = self._connection
        is_elsewhere = (
            None if connection is None else self._other_clusters.is_elsewhere(record, connection)
        )
        if connection is None or is_elsewhere is None:
            key = ("abroad", record.uid)
            if not self._retries.is_wanted(key):
                self._retries.do(key, partial(self._find_cluster, record))
            return None
        return elsewhere_message(record, connection.server) if is_elsewhere else ""

    def trouble(self, record: JobRecord) -> TaskFailure:
        """Return the failure that may have left a job's state outdated.

        If there is none, return an empty failure.
        """
        watcher = self.now(record.namespace)
        if watcher is not None and watcher.trouble is not None:
            return _shortened(to_failure(watcher.trouble))
        keys: list[Hashable] = [("reach", record.uid)]
        if watcher is None:
            keys += [("abroad", record.uid), ("watch", record.namespace)]
        failures = map(self._retries.failure, keys)
        return _shortened(next((failure for failure in failures if failure.message), TaskFailure()))

    def reach(self, record: JobRecord) -> None:
        """Check in the background that a job's cluster responds.

        A watch alone notices a silent cluster only after a long time.
        """
        self._retries.do(("reach", record.uid), partial(self._reach, record.uid))

    def _reach(self, uid: str) -> None:
        record = self._records.find(uid)
        if record is not None and record.is_begun:
            connection = self.connected_for(record)
            try:
                api_objects.find(connection, api_objects.SECRETS, record.namespace, record.base)
            except KubernetesError as error:
                if error.status != TOO_MANY:  # the cluster responds, but is busy
                    raise

    def _find_cluster(self, record: JobRecord) -> None:
        self._is_abroad(record, self.connected())
        self._notify(record.uid)

    def _is_abroad(self, record: JobRecord, connection: Connection) -> bool:
        if self._other_clusters.check(record, connection):
            return True
        # Store the address, so that later checks identify the job's cluster without a request.
        if record.is_begun:
            self._records.change(record.uid, server=connection.address)
        return False

    def now(self, namespace: str) -> Watcher | None:
        """Return the watch of a namespace's pods, or None if there is none yet."""
        with self._lock:
            return self._watchers.get(namespace)

    def watch(self, namespace: str) -> None:
        """Watch the pods of a namespace as soon as there is a connection."""
        key = ("watch", namespace)
        if self.now(namespace) is None and not self._retries.is_wanted(key):
            self._retries.do(key, partial(self.begin_watch, namespace))

    def begin_watch(self, namespace: str) -> Watcher:
        """Return the watch of a namespace's pods. Start a watch if there is none."""
        connection = self.connected()
        with self._lock:
            if namespace in self._watchers:
                return self._watchers[namespace]
            # Another thread may have connected again in the meantime.
            connection = self._connection or connection
            made = Watcher(
                connection,
                PODS,
                namespace=namespace,
                selector=f"{pod_names.HOME}={self._records.identity}",
                on_change=self._on_pod,
                on_trouble=lambda _error: self.notify_namespace(namespace),
                # the cluster responds again, so failed tasks run at once
                on_open=self._retries.wake,
            )
            self._watchers[namespace] = made
        made.start()
        # Notify once the watch is synced, because only then does it show which pods were deleted
        # earlier.
        self._retries.do(("synced", namespace), partial(self._notify_when_synced, made))
        return made

    def close(self) -> None:
        """Stop all watches of pods and close the connection to the cluster."""
        end_logins()  # wakes threads that wait for a login
        with self._lock:
            watchers, self._watchers = list(self._watchers.values()), {}
            connection, self._connection = self._connection, None
        for watcher in watchers:
            watcher.stop()
        if connection is not None:
            connection.close()

    def _notify_when_synced(self, watcher: Watcher) -> None:
        if watcher.synced.wait(1.0) or watcher is not self.now(watcher.namespace):
            self.notify_namespace(watcher.namespace)
        else:
            again = partial(self._notify_when_synced, watcher)
            self._retries.do(("synced", watcher.namespace), again, after=0.2)

    def notify_namespace(self, namespace: str) -> None:
        """Have all jobs of a namespace reconciled."""
        for record in self._records.all():
            if record.namespace == namespace:
                self._notify(record.uid)


def _shortened(failure: TaskFailure) -> TaskFailure:
    return failure._replace(message=failure.message[:_LONGEST].rstrip("."))

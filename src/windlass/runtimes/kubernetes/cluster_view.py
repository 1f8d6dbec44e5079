"""The view of a cluster: the connection to it, and a watch of our pods in each namespace."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.api.connection import Connection
from windlass.kube.api.login_commands import end_logins
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.shared_attempt import CommonTry
from windlass.kube.api.watch import Change, Watcher
from windlass.model.errors import KubernetesError
from windlass.runtimes.kubernetes import api_objects
from windlass.runtimes.kubernetes import names as pod_names
from windlass.runtimes.kubernetes.job_records import JobRecords
from windlass.runtimes.kubernetes.manifests import JobRecord
from windlass.runtimes.kubernetes.other_cluster import (
    HOW_TO_CONNECT_THERE,
    OtherClusters,
    elsewhere_message,
)
from windlass.runtimes.kubernetes.retry_queue import TOO_MANY, Failure, RetryQueue, failure_of

_SOON = 2.0  # seconds that a connection may take for those who look after other jobs, too
_SHARED = 1.0  # seconds in which one that took longer, and failed, is not tried again
_LONGEST = 400  # characters of what is wrong: what can be done is said after it


class ClusterView:
    """The connection and the watches, made when they are first needed, and anew after a login."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        records: JobRecords,
        retries: RetryQueue,
        *,
        on_pod: Change,
        on_login: Callable[[], None],
        notify: Callable[[str], None],
    ) -> None:
        """Call `on_pod` for changed pods and `notify` for jobs whose visibility changed."""
        self._connect = connect
        self._records = records
        self._retries = retries
        self._on_pod = on_pod
        self._on_login = on_login
        self._notify = notify
        self._other_clusters = OtherClusters()
        # Held for moments: whoever looks at a job takes it, and must not wait for a login.
        self._lock = threading.RLock()
        self._renewal = CommonTry(self._renew)
        self._failure: KubernetesError | None = None  # why there is no connection of today
        self._shared_until = 0.0
        self._connection: Connection | None = None
        self._watchers: dict[str, Watcher] = {}  # by namespace

    @property
    def connection(self) -> Connection | None:
        """The connection, if there is one by now."""
        return self._connection

    def connected(self) -> Connection:
        """The connection, made when it is first needed, and anew after a login.

        That may take as long as a program has to log in: this is for those who can wait. Those
        who wait in a queue for that fail together, and not one login after the other.
        """
        if connection := self._current():
            return connection
        if self._failure is not None and time.monotonic() < self._shared_until:
            raise self._failure
        return self._renewal.result()

    def connected_soon(self) -> Connection:
        """The same for those who cannot: where it takes longer, the connection that was there.

        It is an error if there was none. What is done later in the cluster has the newest.
        """
        if connection := self._current():
            return connection
        failure = self._failure or KubernetesError(
            "There is no connection to the cluster yet: who logs us in takes longer than usual."
        )
        try:
            # After a failure nobody waits: what comes of another try is for whoever asks next.
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
            return current  # made by a try that ended a moment ago
        began = time.monotonic()
        try:
            connection = self._connect()
        except KubernetesError as error:  # which leaves everything as it is
            ended = time.monotonic()
            self._shared_until = ended + _SHARED if ended - began > _SOON else 0.0
            self._failure = error
            raise
        with self._lock:
            self._failure = None
            self._connection = connection
            outdated, self._watchers = list(self._watchers.values()), {}
            if outdated:  # before anything is begun with the new one
                self._on_login()
        for watcher in outdated:
            watcher.stop(timeout=0)
            self.notify_namespace(watcher.namespace)  # whoever still has a job there looks again
        return connection

    def connected_for(self, record: JobRecord) -> Connection:
        """The connection to the cluster in which a job is; an error if that is another."""
        connection = self.connected()
        if self._is_abroad(record, connection):
            raise KubernetesError(
                elsewhere_message(record, connection.server), hint=HOW_TO_CONNECT_THERE
            )
        return connection

    def elsewhere(self, record: JobRecord) -> str | None:
        """What is said of a job of another cluster, nothing of others; none until it is known."""
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

    def trouble(self, record: JobRecord) -> Failure:
        """Why nothing new is known of a job, if that was tried; else nothing."""
        watcher = self.now(record.namespace)
        if watcher is not None and watcher.trouble is not None:
            return _shortened(failure_of(watcher.trouble))
        keys: list[Hashable] = [("reach", record.uid)]
        if watcher is None:
            keys += [("abroad", record.uid), ("watch", record.namespace)]
        failures = map(self._retries.failure, keys)
        return _shortened(next((failure for failure in failures if failure.message), Failure()))

    def reach(self, record: JobRecord) -> None:
        """See whether the cluster of a job answers: a watch is silent for long before it fails."""
        self._retries.do(("reach", record.uid), partial(self._reach, record.uid))

    def _reach(self, uid: str) -> None:
        record = self._records.find(uid)
        if record is not None and record.is_begun:
            connection = self.connected_for(record)
            try:
                api_objects.find(connection, api_objects.SECRETS, record.namespace, record.base)
            except KubernetesError as error:
                if error.status != TOO_MANY:  # it is there, and busy
                    raise

    def _find_cluster(self, record: JobRecord) -> None:
        self._is_abroad(record, self.connected())
        self._notify(record.uid)

    def _is_abroad(self, record: JobRecord, connection: Connection) -> bool:
        if self._other_clusters.check(record, connection):
            return True
        if record.is_begun:  # from now on it is known by this address, without a look
            self._records.change(record.uid, server=connection.place)
        return False

    def now(self, namespace: str) -> Watcher | None:
        """The watch of a namespace, if there is one."""
        with self._lock:
            return self._watchers.get(namespace)

    def watch(self, namespace: str) -> None:
        """Have the pods of a namespace seen, as soon as that can be."""
        key = ("watch", namespace)
        if self.now(namespace) is None and not self._retries.is_wanted(key):
            self._retries.do(key, partial(self.begin_watch, namespace))

    def begin_watch(self, namespace: str) -> Watcher:
        """The watch of a namespace, begun if there is none."""
        connection = self.connected()
        with self._lock:
            if namespace in self._watchers:
                return self._watchers[namespace]
            connection = self._connection or connection  # there may be a newer one by now
            made = Watcher(
                connection,
                PODS,
                namespace=namespace,
                selector=f"{pod_names.HOME}={self._records.identity}",
                on_change=self._on_pod,
                on_trouble=lambda _error: self.notify_namespace(namespace),
                on_open=self._retries.wake,  # the cluster is back: what failed need not wait
            )
            self._watchers[namespace] = made
        made.start()
        # All that went while nobody looked is known to be gone only then.
        self._retries.do(("synced", namespace), partial(self._notify_when_synced, made))
        return made

    def close(self) -> None:
        """Let go of the cluster."""
        end_logins()  # whoever waits for one is not waited for
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
        """Have all jobs of a namespace looked at."""
        for record in self._records.all():
            if record.namespace == namespace:
                self._notify(record.uid)


def _shortened(failure: Failure) -> Failure:
    return failure._replace(message=failure.message[:_LONGEST].rstrip("."))

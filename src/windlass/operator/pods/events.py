"""Pod events: the cluster's reasons why pods do not start, where the pod has none itself.

The kubelet reports problems of volumes as events only. Events are listed for a whole namespace,
only while pods wait there without a reason in their status, and at growing intervals.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import EVENTS, Object, location_of, uid_of
from windlass.model.errors import KubernetesError, WindlassError

FIRST_PAUSE = 5.0  # most pods have started by then, which saves the request
LONGEST_PAUSE = 120.0
_PAGE = 500
_FORBIDDEN = 403

_log = logging.getLogger(__name__)


@dataclass
class _PendingNamespace:
    """A namespace with pending pods."""

    due: float = 0.0  # time of the next list
    pause: float = FIRST_PAUSE
    waiting: dict[str, str] = field(default_factory=dict)  # uids of pods -> uids of their jobs
    events: dict[str, list[Object]] = field(default_factory=dict)  # by the uid of a pod


class PodEvents:
    """The events of waiting pods; see `of` and `stop`. May be used from any thread.

    `wake` is called with the uid of a job of whose pods there may be news; `waits` says whether
    the pod of a uid still does.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        wake: Callable[[str], None],
        waits: Callable[[str], bool],
    ) -> None:
        self._connection = connection
        self._wake = wake
        self._waits = waits
        self._namespaces: dict[str, _PendingNamespace] = {}
        self._forbidden: set[str] = set()  # namespaces without permission for events
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)
        self._thread.start()

    @property
    def has_died(self) -> bool:
        """Whether the thread ended without `stop`."""
        return not self._thread.is_alive() and not self._is_stopped

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the thread."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def of(self, pod: Object, job_uid: str) -> Sequence[Object]:
        """Return the known events of a pending pod, and schedule a list that wakes its job."""
        namespace = location_of(pod)[0]
        with self._changed:
            pending = self._namespaces.setdefault(namespace, _PendingNamespace())
            if not pending.waiting:
                pending.due = max(pending.due, time.monotonic() + FIRST_PAUSE)
            pending.waiting[uid_of(pod)] = job_uid
            self._changed.notify_all()
            return tuple(pending.events.get(uid_of(pod), ()))

    def _run(self) -> None:
        while (namespace := self._next()) is not None:
            self._refresh(namespace)

    def _next(self) -> str | None:
        """Wait for the next namespace that is due; none after `stop`."""
        with self._changed:
            while not self._is_stopped:
                now = time.monotonic()
                for namespace, pending in list(self._namespaces.items()):
                    if not pending.waiting and now > pending.due + LONGEST_PAUSE:
                        del self._namespaces[namespace]  # no pod has been pending there for long
                wanted = {
                    name: pending for name, pending in self._namespaces.items() if pending.waiting
                }
                namespace = min(wanted, key=lambda name: wanted[name].due, default="")
                if namespace and wanted[namespace].due <= now:
                    return namespace
                self._changed.wait(wanted[namespace].due - now if namespace else None)
        return None

    def _refresh(self, namespace: str) -> None:
        with self._changed:
            pending = self._namespaces[namespace]
            waiting, pending.waiting = pending.waiting, {}
        waiting = {pod: job for pod, job in waiting.items() if self._waits(pod)}
        if not waiting:
            return
        events = self._events_by_pod(namespace, waiting)
        with self._changed:
            if events is not None:
                pending.events = events
            pending.pause = min(2 * pending.pause, LONGEST_PAUSE)
            pending.due = time.monotonic() + pending.pause
        for job_uid in set(waiting.values()):
            self._wake(job_uid)

    def _events_by_pod(
        self, namespace: str, pods: Container[str]
    ) -> dict[str, list[Object]] | None:
        """Return the events of some pods by uid; None if they cannot be listed."""
        by_pod: dict[str, list[Object]] = {}
        try:
            for event in self._events(namespace):
                uid = str((event.get("involvedObject") or {}).get("uid") or "")
                if uid in pods:
                    by_pod.setdefault(uid, []).append(event)
        except WindlassError as error:
            self._log_failure(namespace, error)
            return None
        return by_pod

    def _events(self, namespace: str) -> Iterator[Object]:
        query = {"fieldSelector": "involvedObject.kind=Pod", "limit": str(_PAGE)}
        while True:
            page = self._connection.request("GET", EVENTS.path(namespace), query=query) or {}
            yield from page.get("items") or ()
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return
            query["continue"] = more

    def _log_failure(self, namespace: str, error: WindlassError) -> None:
        """Log that events cannot be listed, once for each forbidden namespace."""
        is_refused = isinstance(error, KubernetesError) and error.status == _FORBIDDEN
        if not is_refused:
            _log.info("events of pods in namespace %s: %s", namespace, error)
        elif namespace not in self._forbidden:
            self._forbidden.add(namespace)
            _log.info("the reasons why pods do not start cannot be read: %s", error)

"""Reads pod events, which can contain the reason why a pod does not start.

The kubelet reports problems with volumes only as events. The operator lists the events of a whole
namespace at growing intervals, but only while the namespace has waiting pods whose status gives no
reason.
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

FIRST_PAUSE = 5.0  # seconds; most pods start sooner and need no request
LONGEST_PAUSE = 120.0
_PAGE = 500
_FORBIDDEN = 403

_log = logging.getLogger(__name__)


@dataclass
class _PendingNamespace:
    """A namespace with pending pods."""

    due: float = 0.0  # the time of the next list request
    pause: float = FIRST_PAUSE
    # the job's uid, by the uid of the waiting pod
    waiting: dict[str, str] = field(default_factory=dict)
    events: dict[str, list[Object]] = field(default_factory=dict)  # by pod uid


class PodEvents:
    """The events of waiting pods. Thread-safe.

    `wake` is called with a job's uid if its pods may have new events. `waits` takes a pod's uid and
    returns whether the pod still waits.
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
        self._forbidden: set[str] = set()  # namespaces whose events the account may not list
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)
        self._thread.start()

    @property
    def has_died(self) -> bool:
        """Whether the thread that lists events ended although `stop` was not called."""
        return not self._thread.is_alive() and not self._is_stopped

    def stop(self, timeout: float = 5.0) -> None:
        """Stop the thread that lists the events of pods."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def of(self, pod: Object, job_uid: str) -> Sequence[Object]:
        """Return the known events of a pending pod and schedule a request for newer events.

        The pod's job is woken after the request.
        """
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
        """Wait for the next namespace whose events are due. Return None after `stop`."""
        with self._changed:
            while not self._is_stopped:
                now = time.monotonic()
                for namespace, pending in list(self._namespaces.items()):
                    if not pending.waiting and now > pending.due + LONGEST_PAUSE:
                        # no pod was pending in this namespace for a long time
                        del self._namespaces[namespace]
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
        """Return the events of these pods, by pod uid, or None if events cannot be listed."""
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
        """Log that events cannot be listed. Log each forbidden namespace only once."""
        is_refused = isinstance(error, KubernetesError) and error.status == _FORBIDDEN
        if not is_refused:
            _log.info("events of pods in namespace %s: %s", namespace, error)
        elif namespace not in self._forbidden:
            self._forbidden.add(namespace)
            _log.info("the reasons why pods do not start cannot be read: %s", error)

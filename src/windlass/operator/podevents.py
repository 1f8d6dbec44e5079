"""Pod events: what a cluster says of pods that do not start and say nothing of it themselves.

Of volumes the kubelet tells in events alone. They are asked for a namespace at a time, never for a
pod, only while pods wait there without a reason of their own, and less and less often.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field

from windlass.kube.connecting import Connection
from windlass.kube.kinds import EVENTS, Object, place_of, uid_of
from windlass.model.errors import KubernetesError, WindlassError

FIRST_PAUSE = 5.0  # most pods have started by then, and nobody need ask
LONGEST_PAUSE = 120.0
_PAGE = 500
_FORBIDDEN = 403

_log = logging.getLogger(__name__)


@dataclass
class _Place:
    """A namespace in which pods wait."""

    due: float = 0.0  # when it may be asked for again
    pause: float = FIRST_PAUSE
    waiting: dict[str, str] = field(default_factory=dict)  # pods, and the jobs they are of
    said: dict[str, list[Object]] = field(default_factory=dict)  # by the uid of a pod


class PodEvents:
    """What was said of pods that wait; see `of` and `stop`. May be used from any thread.

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
        self._places: dict[str, _Place] = {}
        self._untold: set[str] = set()  # namespaces whose events may not be read, as was said
        self._changed = threading.Condition()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="pod-events", daemon=True)
        self._thread.start()

    @property
    def has_died(self) -> bool:
        """Whether nothing is asked any more, though nobody has stopped it."""
        return not self._thread.is_alive() and not self._is_stopped

    def stop(self, timeout: float = 5.0) -> None:
        """Ask no more."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join(timeout)

    def of(self, pod: Object, job_uid: str) -> Sequence[Object]:
        """What was said of a pod that waits. It is asked for again, and the job woken then."""
        namespace = place_of(pod)[0]
        with self._changed:
            place = self._places.setdefault(namespace, _Place())
            if not place.waiting:
                place.due = max(place.due, time.monotonic() + FIRST_PAUSE)
            place.waiting[uid_of(pod)] = job_uid
            self._changed.notify_all()
            return tuple(place.said.get(uid_of(pod), ()))

    def _run(self) -> None:
        while (namespace := self._next()) is not None:
            self._ask(namespace)

    def _next(self) -> str | None:
        """The next namespace to ask about, once it is due; none when it is over."""
        with self._changed:
            while not self._is_stopped:
                now = time.monotonic()
                for namespace, place in list(self._places.items()):
                    if not place.waiting and now > place.due + LONGEST_PAUSE:
                        del self._places[namespace]  # nothing has waited there for long
                wanted = {each: place for each, place in self._places.items() if place.waiting}
                namespace = min(wanted, key=lambda each: wanted[each].due, default="")
                if namespace and wanted[namespace].due <= now:
                    return namespace
                self._changed.wait(wanted[namespace].due - now if namespace else None)
        return None

    def _ask(self, namespace: str) -> None:
        with self._changed:
            place = self._places[namespace]
            waiting, place.waiting = place.waiting, {}
        waiting = {pod: job for pod, job in waiting.items() if self._waits(pod)}
        if not waiting:
            return
        said = self._said(namespace, waiting)
        with self._changed:
            if said is not None:
                place.said = said
            place.pause = min(2 * place.pause, LONGEST_PAUSE)
            place.due = time.monotonic() + place.pause
        for job_uid in set(waiting.values()):
            self._wake(job_uid)

    def _said(self, namespace: str, pods: Container[str]) -> dict[str, list[Object]] | None:
        """What is said of some pods; none if nobody knows."""
        said: dict[str, list[Object]] = {}
        try:
            for event in self._events(namespace):
                uid = str((event.get("involvedObject") or {}).get("uid") or "")
                if uid in pods:
                    said.setdefault(uid, []).append(event)
        except WindlassError as error:
            self._tell(namespace, error)
            return None
        return said

    def _events(self, namespace: str) -> Iterator[Object]:
        query = {"fieldSelector": "involvedObject.kind=Pod", "limit": str(_PAGE)}
        while True:
            page = self._connection.request("GET", EVENTS.path(namespace), query=query) or {}
            yield from page.get("items") or ()
            more = (page.get("metadata") or {}).get("continue")
            if not more:
                return
            query["continue"] = more

    def _tell(self, namespace: str, error: WindlassError) -> None:
        """Without them all goes on: one that may not be read is said once."""
        is_refused = isinstance(error, KubernetesError) and error.status == _FORBIDDEN
        if not is_refused:
            _log.info("events of pods in namespace %s: %s", namespace, error)
        elif namespace not in self._untold:
            self._untold.add(namespace)
            _log.info("why pods there do not start may not be told: %s", error)

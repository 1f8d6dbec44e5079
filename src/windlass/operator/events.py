"""Records the Kubernetes events that `kubectl describe` shows for a job object.

A separate thread posts the events. If the cluster refuses them, nothing else is affected.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid

import msgspec

from windlass.kube.api.connection import Connection
from windlass.kube.api.resource_kinds import EVENTS, Object, location_of, uid_of
from windlass.kube.timestamp import time_text
from windlass.model.errors import WindlassError
from windlass.model.status import EventKind
from windlass.model.text.display import clean

COMPONENT = "windlass-operator"
_MOST_WAITING = 10_000
_LONGEST_MESSAGE = 1000

_log = logging.getLogger(__name__)


class PendingEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that has not been posted yet. Events that differ only in `name` are merged."""

    about: Object  # the keys apiVersion, kind, namespace, name and uid of the object
    reason: str
    message: str
    name: str = ""
    kind: EventKind = EventKind.NORMAL
    time: float


def reference_to(obj: Object) -> Object:
    """Return a reference to an object, for the field `involvedObject` of an event."""
    namespace, name = location_of(obj)
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "namespace": namespace,
        "name": name,
        "uid": uid_of(obj),
    }


def merged(events: list[PendingEvent]) -> list[PendingEvent]:
    """Merge events that differ only in `name`.

    >>> about = {"uid": "1", "name": "mnist"}
    >>> made = [
    ...     PendingEvent(
    ...         about=about,
    ...         reason="SuccessfulCreatePod",
    ...         message="Created pod",
    ...         name=name,
    ...         time=0.0,
    ...     )
    ...     for name in ("a", "b")
    ... ]
    >>> [event.message for event in merged(made)]
    ['Created pod: a, b']
    """
    by_what: dict[tuple[str, str, str], list[PendingEvent]] = {}
    firsts: list[PendingEvent] = []
    for event in events:
        if not event.name:
            firsts.append(event)
            continue
        what = (event.about["uid"], event.reason, event.message)
        if what not in by_what:
            firsts.append(event)
        by_what.setdefault(what, []).append(event)
    return [
        msgspec.structs.replace(
            event,
            name="",
            message=f"{event.message}: "
            + ", ".join(
                other.name for other in by_what[event.about["uid"], event.reason, event.message]
            ),
        )
        if event.name
        else event
        for event in firsts
    ]


def event_object(event: PendingEvent) -> Object:
    """Convert an event to the API's `Event` object."""
    about = event.about
    when = time_text(event.time)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about['name'][:200]}.{uuid.uuid4().hex[:16]}",
            "namespace": about["namespace"],
        },
        "involvedObject": about,
        "reason": event.reason,
        "message": event.message[:_LONGEST_MESSAGE],
        "type": event.kind.value,
        "source": {"component": COMPONENT},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }


class EventRecorder:
    """Posts events in its own thread, so that callers do not wait for the cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: queue.Queue[PendingEvent | None] = queue.Queue(_MOST_WAITING)
        self._trouble = ""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def record(
        self,
        obj: Object,
        reason: str,
        message: str,
        *,
        name: str = "",
        kind: EventKind = EventKind.NORMAL,
        at: float | None = None,
    ) -> None:
        """Queue an event for an object. `name` is the pod or service that the event is about."""
        event = PendingEvent(
            about=reference_to(obj), reason=reason, message=message, name=name, kind=kind,
            time=time.time() if at is None else at,
        )  # fmt: skip
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            _log.warning("too many events are queued, dropped: %s %s", reason, message)

    @property
    def has_died(self) -> bool:
        """Whether the thread that posts events ended although `stop` was not called."""
        return not self._thread.is_alive() and not self._is_stopped

    def stop(self, timeout: float = 5.0) -> None:
        """Post the events that are still queued, for at most `timeout` seconds."""
        self._is_stopped = True
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        is_over = False
        while not is_over:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            is_over = None in batch
            for event in merged([event for event in batch if event is not None]):
                _log_event(event)
                self._post(event)

    def _post(self, event: PendingEvent) -> None:
        path = EVENTS.path(event.about["namespace"])
        try:
            self._connection.request("POST", path, event_object(event), timeout=10.0)
        except WindlassError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("an event could not be created: %s", error)


def _log_event(event: PendingEvent) -> None:
    """Log an event, because most clusters delete events after an hour."""
    about = event.about
    level = logging.WARNING if event.kind is EventKind.WARNING else logging.INFO
    message = clean(event.message[:_LONGEST_MESSAGE])
    where = f"{about['namespace']}/{about['name']}"
    _log.log(level, "%s %s: %s: %s", about["kind"], where, event.reason, message)

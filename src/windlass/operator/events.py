"""Events: what happened to a job, told on its object, where `kubectl describe` shows it.

They are told beside the work: a cluster that takes no events holds nothing up.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
import uuid

import msgspec

from windlass.kube.connecting import Connection
from windlass.kube.kinds import EVENTS, Object, place_of, uid_of
from windlass.model.errors import WindlassError
from windlass.model.status import EventKind
from windlass.model.text import clean
from windlass.operator.projecting import time_text

COMPONENT = "windlass-operator"
_MOST_WAITING = 10_000
_LONGEST_MESSAGE = 1000

_log = logging.getLogger(__name__)


class Happening(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened; of several names the same may have happened at once."""

    about: Object  # apiVersion, kind, namespace, name, uid
    reason: str
    message: str
    name: str = ""
    kind: EventKind = EventKind.NORMAL
    time: float


def reference_to(thing: Object) -> Object:
    """How an event says what it is about."""
    namespace, name = place_of(thing)
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "namespace": namespace,
        "name": name,
        "uid": uid_of(thing),
    }


def gathered(happenings: list[Happening]) -> list[Happening]:
    """As few as say the same: what happened to several names is told once.

    >>> about = {"uid": "1", "name": "mnist"}
    >>> made = [
    ...     Happening(
    ...         about=about,
    ...         reason="SuccessfulCreatePod",
    ...         message="Created pod",
    ...         name=name,
    ...         time=0.0,
    ...     )
    ...     for name in ("a", "b")
    ... ]
    >>> [each.message for each in gathered(made)]
    ['Created pod: a, b']
    """
    by_what: dict[tuple[str, str, str], list[Happening]] = {}
    told: list[Happening] = []
    for each in happenings:
        if not each.name:
            told.append(each)
            continue
        what = (each.about["uid"], each.reason, each.message)
        if what not in by_what:
            told.append(each)
        by_what.setdefault(what, []).append(each)
    return [
        msgspec.structs.replace(
            each,
            name="",
            message=f"{each.message}: "
            + ", ".join(
                other.name for other in by_what[each.about["uid"], each.reason, each.message]
            ),
        )
        if each.name
        else each
        for each in told
    ]


def event_object(happening: Happening) -> Object:
    """An event as the API is to have it."""
    about = happening.about
    when = time_text(happening.time)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{about['name'][:200]}.{uuid.uuid4().hex[:16]}",
            "namespace": about["namespace"],
        },
        "involvedObject": about,
        "reason": happening.reason,
        "message": happening.message[:_LONGEST_MESSAGE],
        "type": happening.kind.value,
        "source": {"component": COMPONENT},
        "firstTimestamp": when,
        "lastTimestamp": when,
        "count": 1,
    }


class Recorder:
    """Tells of events in a thread of its own; see `tell` and `stop`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: queue.Queue[Happening | None] = queue.Queue(_MOST_WAITING)
        self._trouble = ""
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)
        self._thread.start()

    def tell(
        self,
        thing: Object,
        reason: str,
        message: str,
        *,
        name: str = "",
        kind: EventKind = EventKind.NORMAL,
        at: float | None = None,
    ) -> None:
        """Something happened to an object; `name` says to which of what it consists of."""
        happening = Happening(
            about=reference_to(thing), reason=reason, message=message, name=name, kind=kind,
            time=time.time() if at is None else at,
        )  # fmt: skip
        try:
            self._waiting.put_nowait(happening)
        except queue.Full:
            _log.warning("too many events wait to be told: %s %s is not", reason, message)

    @property
    def has_died(self) -> bool:
        """Whether nothing is told any more, though nobody has stopped it."""
        return not self._thread.is_alive() and not self._is_stopped

    def stop(self, timeout: float = 5.0) -> None:
        """Tell what is left, for so long."""
        self._is_stopped = True
        try:
            self._waiting.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        is_over = False
        while not is_over:
            batch = [self._waiting.get()]
            while not self._waiting.empty():
                batch.append(self._waiting.get())
            is_over = None in batch
            for each in gathered([each for each in batch if each is not None]):
                _log_of(each)
                self._post(each)

    def _post(self, happening: Happening) -> None:
        path = EVENTS.path(happening.about["namespace"])
        try:
            self._connection.request("POST", path, event_object(happening), timeout=10.0)
        except WindlassError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                _log.warning("an event could not be told: %s", error)


def _log_of(happening: Happening) -> None:
    """Events go after an hour, as most clusters are set up: the log keeps them."""
    about = happening.about
    level = logging.WARNING if happening.kind is EventKind.WARNING else logging.INFO
    told = clean(happening.message[:_LONGEST_MESSAGE])
    where = f"{about['namespace']}/{about['name']}"
    _log.log(level, "%s %s: %s: %s", about["kind"], where, happening.reason, told)

"""Jobs: the objects of a cluster as the controller's store.

What is remembered of a job is swapped in its object's annotation, guarded by the object's version;
then its status is written to say the same. Whoever dies in between leaves a status that the next
look at the object mends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from windlass.engine.conditions import INVALID_REASON, say
from windlass.kube.connecting import Connection
from windlass.kube.kinds import Object, labels_of, place_of, uid_of
from windlass.kube.watching import Watcher
from windlass.model.errors import InvalidArgument, KubernetesError, WindlassError
from windlass.model.job import Job, JobSpec
from windlass.model.status import ConditionType, Event, EventKind, JobStatus, Replica, ReplicaId
from windlass.operator import counting
from windlass.operator.counting import Counts
from windlass.operator.events import Recorder
from windlass.operator.jobkinds import BY_NAME, JOB_KINDS, JobKind
from windlass.operator.making import make_pod
from windlass.operator.memory import inherited, memory_text, remembered
from windlass.operator.names import JOB_NAME, MEMORY, OPERATOR_NAME
from windlass.operator.projecting import is_same, status_of, told_of
from windlass.operator.translating import Translation, is_ours, remnant, translate
from windlass.operator.views import View

_MERGE = "application/merge-patch+json"
_NOT_FOUND, _CONFLICT = 404, 409
_PROJECT_TRIES = 5
# What is about to be done: the runtime tells of it once it is.
_INTENTIONS = frozenset({"ReplicaStarting", "ReplicaStopping"})

_log = logging.getLogger(__name__)


class Jobs:
    """The jobs of some namespaces, or of all, as `view` sees them: a `JobStore`."""

    def __init__(
        self,
        connection: Connection,
        namespaces: Sequence[str] = (),
        *,
        recorder: Recorder,
        counts: Counts,
        kinds: Sequence[JobKind] = JOB_KINDS,
        on_trouble: Callable[[WindlassError | None], None] = lambda _error: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._recorder = recorder
        self._counts = counts
        self._wake: Callable[[str], None] | None = None  # none: somebody else acts
        self._shared: set[str] = set()  # namespaces in which another acts, too, as was told
        self._lock = threading.Lock()
        self._translations: dict[str, tuple[int, Translation | InvalidArgument]] = {}
        self._refused: dict[str, tuple[Translation, InvalidArgument]] = {}
        self._written: dict[str, deque[str]] = {}  # the memories that we wrote ourselves, lately
        self.view = View(
            connection, [kind.kind for kind in kinds], namespaces,
            on_change=self._changed, on_trouble=on_trouble, clock=clock,
        )  # fmt: skip

    def watch(self, wake: Callable[[str], None] | None) -> None:
        """Have `wake` called with the uid of whatever changed; with none, act no more."""
        self._wake = wake

    def load(self, uid: str) -> tuple[Job, JobStatus] | None:
        """A job and its status; none of one that is gone, or going, or somebody else's."""
        thing = self.find(uid)
        if thing is None or not _is_to_act_on(thing):
            self._forget(uid)
            return None
        status = remembered(thing)
        is_known = status is not None
        if status is None:
            status = inherited(thing)
        found = self._translated(thing)
        problem = found if isinstance(found, InvalidArgument) else self.problem(found)
        if problem is not None and not status.is_finished:
            status = self._refuse(thing, status, problem)
        elif is_known:
            self._mend(thing, status)
        if isinstance(found, InvalidArgument):
            return remnant(thing), status
        return found.job, msgspec.structs.replace(status, addresses=found.addresses)

    def save(
        self,
        uid: str,
        old: JobStatus,
        new: JobStatus,
        events: Sequence[Event],
        replicas: Sequence[Replica],
    ) -> bool:
        """Swap what is remembered, if that changed; then say it, if that would be news."""
        thing = self.find(uid)
        if thing is None:
            return False
        before, after = memory_text(uid, old), memory_text(uid, new)
        known = remembered(thing)
        is_first = known is None
        if memory_text(uid, known if known is not None else inherited(thing)) != before:
            return False
        if before != after or is_first:
            swapped = self._swap(thing, after)
            if swapped is None:
                return False
            thing = swapped
        self._count(thing, old, new, is_first=is_first)
        self._project(thing, self._spec_of(thing), new, replicas)
        failed = new.condition(ConditionType.FAILED)
        for event in events:
            if event.reason not in _INTENTIONS:
                is_end = failed is not None and event.message == failed.message
                message = told_of(new, event.message) if is_end else event.message
                self._recorder.tell(thing, event.reason, message, kind=event.kind, at=event.time)
        return True

    def unfinished(self) -> Iterable[str]:
        """Those not settled, and those whose status does not say so yet; the oldest first."""
        found = self.view.items()
        found.sort(key=lambda each: (each["metadata"]["creationTimestamp"], place_of(each)))
        for thing in found:
            if self._is_open(thing):
                yield uid_of(thing)

    def _is_open(self, thing: Object) -> bool:
        try:
            status = remembered(thing)
            return status is None or not status.settled or self._is_unfinished(thing, status)
        except Exception:  # noqa: BLE001 -- whatever is in one object, the others are looked after
            _log.exception("%s/%s cannot be understood", *place_of(thing))
            return False

    def find(self, uid: str) -> Object | None:
        """The object of a job."""
        return self.view.get(uid)

    def translation(self, uid: str) -> Translation | None:
        """What a job's pods are made from; none if it is gone, or makes no sense."""
        thing = self.find(uid)
        if thing is None or not _is_to_act_on(thing):
            return None
        found = self._translated(thing)
        return None if isinstance(found, InvalidArgument) else found

    def refuse(self, made_from: Translation, problem: InvalidArgument) -> None:
        """The cluster will never take what is made from this: the next look has the job fail."""
        with self._lock:
            self._refused[made_from.job.uid] = (made_from, problem)

    def problem(self, made_from: Translation) -> InvalidArgument | None:
        """Why nothing can be made from this, as far as the cluster has said."""
        with self._lock:
            known = self._refused.get(made_from.job.uid)
        # Of an object that was changed since there is another translation.
        return known[1] if known is not None and known[0] is made_from else None

    def status(self, uid: str) -> JobStatus | None:
        """What is remembered of a job."""
        thing = self.find(uid)
        return None if thing is None else remembered(thing)

    def namesakes(self, thing: Object) -> Iterator[str]:
        """The uids of the jobs that a pod or service says it is of, by its labels."""
        labels = labels_of(thing)
        namespace, name = place_of(thing)[0], labels.get(JOB_NAME, "")
        for watcher in self.view.watchers:
            found = watcher.at(namespace, name)
            if found is not None and _is_of(found, labels):
                yield uid_of(found)

    def look(self, uid: str) -> Object | None:
        """An object as it is in the cluster at this moment; none if it is gone."""
        thing = self.find(uid)
        return None if thing is None else self._refresh(thing)

    def over(self, uid: str) -> tuple[JobSpec, JobStatus] | None:
        """What a job asked for and what became of it, once nothing is left to do; else none."""
        thing = self.find(uid)
        status = None if thing is None or not _is_to_act_on(thing) else remembered(thing)
        if thing is None or status is None or not status.settled:
            return None
        return self._spec_of(thing), status

    def delete(self, uid: str) -> None:
        """Have the object itself go, and with it all that it owns."""
        thing = self.find(uid)
        if thing is None or "deletionTimestamp" in thing["metadata"]:
            return
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        try:
            self._connection.request("DELETE", _path(thing), options)
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise

    def _is_unfinished(self, thing: Object, status: JobStatus) -> bool:
        """Whether its end was not said yet, since somebody died, or it is to go in its time."""
        return self._is_off(thing, status) or self._spec_of(thing).ttl_after_finished is not None

    def _forget(self, uid: str) -> None:
        with self._lock:
            self._translations.pop(uid, None)
            self._refused.pop(uid, None)
            self._written.pop(uid, None)

    def _changed(self, before: Object | None, after: Object | None) -> None:
        thing = after or before
        if thing is None:
            return
        wake = self._wake
        if wake is None:
            return  # whoever acts looks at it, and counts it
        if after is None:
            if is_ours(thing):
                self._counts.add(counting.DELETED, place_of(thing)[0], thing["kind"])
        elif before is not None:
            is_others = is_ours(after) and self._is_written_by_another(before, after)
            if is_others:
                self._tell_of_another(after)
            if not is_others and not _is_news(before, after):
                return
        wake(uid_of(thing))

    def _is_written_by_another(self, before: Object, after: Object) -> bool:
        """Whether what is remembered of a job changed, and not by this one's hand."""
        text = _memory_of(after)
        with self._lock:
            return text != _memory_of(before) and text not in self._written.get(uid_of(after), ())

    def _tell_of_another(self, thing: Object) -> None:
        """Tell it once of a namespace: nothing is done twice, but it is not as it should be."""
        namespace, name = place_of(thing)
        if namespace in self._shared:
            return
        self._shared.add(namespace)
        _log.warning(
            "somebody else wrote what is remembered of %s %s: does another operator look after "
            "namespace %s? Nothing is done twice, but one of them is too many",
            thing["kind"], name, namespace,
        )  # fmt: skip

    def _translated(self, thing: Object) -> Translation | InvalidArgument:
        uid, generation = uid_of(thing), int(thing["metadata"].get("generation") or 0)
        with self._lock:
            known = self._translations.get(uid)
        if known is not None and known[0] == generation:
            return known[1]
        found: Translation | InvalidArgument
        try:
            found = translate(thing)
            for role in found.job.spec.roles:
                make_pod(found, ReplicaId(role.name, 0, 1))  # whether that can be done
        except InvalidArgument as error:
            found = error
        except Exception as error:  # noqa: BLE001 -- templates hold anything
            _log.exception("%s/%s cannot be translated", *place_of(thing))
            found = InvalidArgument(f"It makes no sense: {type(error).__name__}: {error}.")
        with self._lock:
            self._translations[uid] = (generation, found)
        return found

    def _spec_of(self, thing: Object) -> JobSpec:
        found = self._translated(thing)
        return (remnant(thing) if isinstance(found, InvalidArgument) else found.job).spec

    def _refuse(self, thing: Object, status: JobStatus, problem: InvalidArgument) -> JobStatus:
        """An object that makes no sense has failed: once and for all, with what and where."""
        now, message = time.time(), str(problem)
        new = say(status, ConditionType.FAILED, INVALID_REASON, message, now)
        conditions = tuple(
            msgspec.structs.replace(each, status=False, last_update=now, last_transition=now)
            if each.status and each.type in (ConditionType.RUNNING, ConditionType.RESTARTING)
            else each
            for each in new.conditions
        )
        new = msgspec.structs.replace(
            new, conditions=conditions, completion_time=now, last_reconcile_time=now
        )
        event = Event(time=now, kind=EventKind.WARNING, reason=INVALID_REASON, message=message)
        if not self.save(uid_of(thing), status, new, (event,), ()):
            raise KubernetesError(f"{place_of(thing)[1]} changed meanwhile", reason="Conflict")
        return new

    def _swap(self, thing: Object, text: str) -> Object | None:
        """The object with what is to be remembered; none if it had changed."""
        uid = uid_of(thing)
        with self._lock:
            # Not only the last: of one whose answer was lost we learn when the next is refused.
            self._written.setdefault(uid, deque(maxlen=3)).append(text)
        patch = {
            "metadata": {
                "annotations": {MEMORY: text},
                "resourceVersion": thing["metadata"]["resourceVersion"],
                "uid": uid,
            }
        }
        try:
            new: Object = self._connection.request(
                "PATCH", _path(thing), patch, content_type=_MERGE
            )
        except KubernetesError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise
            self._refresh(thing)
            return None
        self._tell(new)
        return new

    def _project(
        self, thing: Object, spec: JobSpec, status: JobStatus, replicas: Sequence[Replica] | None
    ) -> None:
        """Write what is remembered as the object's status, if it says something else.

        Where nobody has looked at the replicas, what was said of them stays.
        """
        kind, (_, name) = BY_NAME[thing["kind"]], place_of(thing)
        said = status_of(kind, name, spec, status, replicas or ())
        if replicas is None:
            said["replicaStatuses"] = (thing.get("status") or {}).get("replicaStatuses") or {}
        for _ in range(_PROJECT_TRIES):
            if is_same(said, thing.get("status") or {}):
                return
            try:
                new = self._connection.request(
                    "PUT", _path(thing, "status"), {**thing, "status": said}
                )
            except KubernetesError as error:
                if error.status == _NOT_FOUND:
                    self._refresh(thing)
                    return
                if error.status != _CONFLICT:
                    raise
                found = self._refresh(thing)
                if found is None or _memory_of(found) != _memory_of(thing):
                    return  # whoever changed that says it, too
                thing = found
            else:
                self._tell(new)
                return
        raise KubernetesError(f"the status of {name} keeps changing", reason="Conflict")

    def _mend(self, thing: Object, status: JobStatus) -> None:
        """Say what is remembered and was never said: somebody died in between."""
        if self._is_off(thing, status):
            self._project(thing, self._spec_of(thing), status, None)

    def _is_off(self, thing: Object, status: JobStatus) -> bool:
        """Whether an object's status says something else than what is remembered of it."""
        kind, (_, name) = BY_NAME[thing["kind"]], place_of(thing)
        said = status_of(kind, name, JobSpec(roles=()), status, ())
        return bool(said["conditions"] != ((thing.get("status") or {}).get("conditions") or []))

    def _count(self, thing: Object, old: JobStatus, new: JobStatus, *, is_first: bool) -> None:
        namespace, kind = place_of(thing)[0], thing["kind"]
        if is_first:
            self._counts.add(counting.CREATED, namespace, kind)
        if new.restarts > old.restarts:
            self._counts.add(counting.RESTARTED, namespace, kind, new.restarts - old.restarts)
        if new.is_finished and not old.is_finished:
            is_success = new.holds(ConditionType.SUCCEEDED)
            self._counts.add(counting.SUCCEEDED if is_success else counting.FAILED, namespace, kind)

    def _refresh(self, thing: Object) -> Object | None:
        """An object as it is now; its watcher learns of it."""
        try:
            found: Object = self._connection.request("GET", _path(thing))
        except KubernetesError as error:
            if error.status != _NOT_FOUND:
                raise
            found = {}
        if not found or uid_of(found) != uid_of(thing):
            self._watcher_of(thing).tell_gone(thing)
            return None
        self._tell(found)
        return found

    def _tell(self, thing: Object) -> None:
        self._watcher_of(thing).tell(thing)

    def _watcher_of(self, thing: Object) -> Watcher:
        return self.view.of(BY_NAME[thing["kind"]].kind, place_of(thing)[0])


def _is_to_act_on(thing: Object) -> bool:
    return "deletionTimestamp" not in thing["metadata"] and is_ours(thing)


def _is_of(thing: Object, labels: dict[str, str]) -> bool:
    return labels.get(OPERATOR_NAME) == BY_NAME[thing["kind"]].operator_name


def _is_news(before: Object, after: Object) -> bool:
    """Whether an object changed in what matters here, besides what is remembered of it."""
    if before["metadata"].get("generation") != after["metadata"].get("generation"):
        return True
    return "deletionTimestamp" in after["metadata"] and (
        "deletionTimestamp" not in before["metadata"]
    )


def _memory_of(thing: Object) -> Any:
    return (thing["metadata"].get("annotations") or {}).get(MEMORY)


def _path(thing: Object, part: str = "") -> str:
    return BY_NAME[thing["kind"]].kind.path(*place_of(thing), part)

"""Waiting: why the pods of a job do not start, told on its object, each reason once."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from windlass.kube.explaining import explain
from windlass.kube.explanation import Explanation
from windlass.kube.images import BACKING_OFF
from windlass.kube.kinds import Object, place_of, uid_of
from windlass.model.status import EventKind
from windlass.operator.events import Recorder
from windlass.operator.podevents import PodEvents

REASON = "ReplicaWaiting"
# In the order of things: nothing is wrong with what is only under way.
_NO_TROUBLE = frozenset({"Pulling", "Queued", "NotLookedAt"})
# Said in other words each time: with the name of what was tried, or that it took too long.
_WORDY = frozenset({"VolumeUnavailable", "NodeTrouble"})
# Not before a pod has all that it mounts: what was said of that is over.
_BEGUN = frozenset({"Pulling", "Pulled", "Created", "Started"})


class Waiting:
    """What was told of each job whose pods do not start. May be used from any thread."""

    def __init__(self, recorder: Recorder, events: PodEvents) -> None:
        self._recorder = recorder
        self._events = events
        self._lock = threading.Lock()
        self._told: dict[str, frozenset[str]] = {}  # by the uid of a job
        self._causes: dict[str, dict[str, Explanation]] = {}  # of its pods, as last said

    def look(self, job: Object, uid: str, pending: list[Object]) -> None:
        """Tell why those of a job's pods that are pending do not start, if that is news.

        What is true of many is told of the first of them. What was told and is true no more is
        told again when it comes back.
        """
        found: dict[str, str] = {}  # what is wrong, and how that is told
        causes: dict[str, Explanation] = {}
        for pod in pending:
            why = self._explain(pod, uid)
            if why is not None and why.reason == BACKING_OFF:
                why = self._causes.get(uid, {}).get(uid_of(pod), why)  # it says less than before
            if why is not None:
                causes[uid_of(pod)] = why
            if why is not None and why.reason not in _NO_TROUBLE:
                told = f"{place_of(pod)[1]} does not start: {why.sentence}"
                found.setdefault(matter_of(why), told)
        with self._lock:
            known = self._told.pop(uid, frozenset())
            self._causes.pop(uid, None)
            if found:
                self._told[uid], self._causes[uid] = frozenset(found), causes
        for matter, told in found.items():
            if matter not in known:
                self._recorder.tell(job, REASON, told, kind=EventKind.WARNING)

    def _explain(self, pod: Object, uid: str) -> Explanation | None:
        """What the pod says itself, else what is said of one that has a machine."""
        why = explain(pod, (), time.time())
        if why is not None or not has_node(pod):
            return why
        return why_unprepared(pod, self._events.of(pod, uid), time.time())

    def forget(self, uid: str) -> None:
        """A job is over, or gone."""
        with self._lock:
            self._told.pop(uid, None)
            self._causes.pop(uid, None)


def matter_of(why: Explanation) -> str:
    """What two explanations have in common that need not both be told.

    >>> slow = Explanation(reason="VolumeUnavailable", sentence="It took more than 2 minutes.")
    >>> busy = Explanation(reason="VolumeUnavailable", sentence="Its server does not answer.")
    >>> matter_of(slow) == matter_of(busy)
    True
    """
    return why.reason if why.reason in _WORDY else why.sentence


def why_unprepared(pod: Object, events: Sequence[Object], now: float) -> Explanation | None:
    """Why a pod's machine does not get to start it, from what is said of the pod.

    >>> said = 'MountVolume.SetUp failed for volume "data" : secret "data" not found'
    >>> pod = {"metadata": {"namespace": "lab"}, "status": {"phase": "Pending"}}
    >>> failed = {"reason": "FailedMount", "message": said}
    >>> why_unprepared(pod, [failed], 0.0).sentence
    'There is no secret data in namespace lab.'
    >>> why_unprepared(pod, [failed, {"reason": "Pulling"}], 0.0) is None  # it is there by now
    True
    """
    has_begun = any(each.get("reason") in _BEGUN for each in events)
    return None if has_begun else explain(pod, events, now)


def is_waiting(pod: Object) -> bool:
    """Whether a pod has not started, and may."""
    status = pod.get("status") or {}
    return status.get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def has_node(pod: Object) -> bool:
    """Whether a machine was chosen for a pod, which has to start it."""
    return bool((pod.get("spec") or {}).get("nodeName"))

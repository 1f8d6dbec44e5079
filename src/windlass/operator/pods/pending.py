"""Records events on a job's object that explain why its pods do not start, once per reason."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from windlass.kube.api.resource_kinds import Object, location_of, uid_of
from windlass.kube.diagnosis.image import most_specific
from windlass.kube.diagnosis.pod import explain
from windlass.kube.explanation import Explanation
from windlass.model.status import EventKind
from windlass.operator.events import EventRecorder
from windlass.operator.pods.events import PodEvents

REASON = "ReplicaWaiting"
# These reasons mean normal progress, not problems.
_NO_TROUBLE = frozenset({"Pulling", "Queued", "NotLookedAt"})
# For these reasons, each event has a different sentence.
_WORDY = frozenset({"VolumeUnavailable", "NodeTrouble"})
# These events follow a successful mount, so earlier mount problems are solved.
_BEGUN = frozenset({"Pulling", "Pulled", "Created", "Started"})


class PendingPods:
    """Reports why pods are pending, and remembers the reported reasons by job. Thread-safe."""

    def __init__(self, recorder: EventRecorder, events: PodEvents) -> None:
        self._recorder = recorder
        self._events = events
        self._lock = threading.Lock()
        self._reported: dict[str, frozenset[str]] = {}  # by the uid of a job
        self._causes: dict[str, dict[str, Explanation]] = {}  # by job uid and pod uid

    def report(self, job: Object, uid: str, pending: list[Object]) -> None:
        """Record an event for each new reason why a job's pending pods do not start.

        If several pods share a reason, the event names only the first of them. If a solved problem
        returns, it is reported again.
        """
        problems: dict[str, str] = {}  # problem -> its message
        causes: dict[str, Explanation] = {}
        for pod in pending:
            before = self._causes.get(uid, {}).get(uid_of(pod))
            why = most_specific(before, self._explain(pod, uid))
            if why is not None:
                causes[uid_of(pod)] = why
            if why is not None and why.reason not in _NO_TROUBLE:
                message = f"{location_of(pod)[1]} does not start: {why.sentence}"
                problems.setdefault(cause_key(why), message)
        with self._lock:
            reported = self._reported.pop(uid, frozenset())
            self._causes.pop(uid, None)
            if problems:
                self._reported[uid], self._causes[uid] = frozenset(problems), causes
        for matter, message in problems.items():
            if matter not in reported:
                self._recorder.record(job, REASON, message, kind=EventKind.WARNING)

    def _explain(self, pod: Object, uid: str) -> Explanation | None:
        """Return the reason in a pod's status or, if there is none, in the pod's events.

        Only a pod that is assigned to a node has useful events.
        """
        why = explain(pod, (), time.time())
        if why is not None or not has_node(pod):
            return why
        return why_unprepared(pod, self._events.of(pod, uid), time.time())

    def forget(self, uid: str) -> None:
        """Discard the record of which reasons for a job's pending pods were reported."""
        with self._lock:
            self._reported.pop(uid, None)
            self._causes.pop(uid, None)


def cause_key(why: Explanation) -> str:
    """Return a key that is equal for all explanations that have the same cause.

    >>> slow = Explanation(reason="VolumeUnavailable", sentence="It took more than 2 minutes.")
    >>> busy = Explanation(reason="VolumeUnavailable", sentence="Its server does not answer.")
    >>> cause_key(slow) == cause_key(busy)
    True
    """
    return why.reason if why.reason in _WORDY else why.sentence


def why_unprepared(pod: Object, events: Sequence[Object], now: float) -> Explanation | None:
    """Return why a pod's node does not start the pod, according to the pod's events.

    >>> said = 'MountVolume.SetUp failed for volume "data" : secret "data" not found'
    >>> pod = {"metadata": {"namespace": "lab"}, "status": {"phase": "Pending"}}
    >>> failed = {"reason": "FailedMount", "message": said}
    >>> why_unprepared(pod, [failed], 0.0).sentence
    'There is no secret data in namespace lab.'
    >>> why_unprepared(pod, [failed, {"reason": "Pulling"}], 0.0) is None  # it is there by now
    True
    """
    has_begun = any(event.get("reason") in _BEGUN for event in events)
    return None if has_begun else explain(pod, events, now)


def is_waiting(pod: Object) -> bool:
    """Return whether a pod is pending and not being deleted."""
    status = pod.get("status") or {}
    return status.get("phase") == "Pending" and "deletionTimestamp" not in pod["metadata"]


def has_node(pod: Object) -> bool:
    """Return whether a pod is assigned to a node."""
    return bool((pod.get("spec") or {}).get("nodeName"))

"""Determines why pods do not start, for all of a namespace's pending pods at once.

A thousand pods may wait for weeks. Most reasons are therefore taken from the watched pods, without
requests to the cluster. Only pods that are assigned to a node need their events. A single request
reads the events of all these pods, in a thread that does not create or delete pods.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from windlass.kube.api.resource_kinds import Object, uid_of, version_of
from windlass.kube.diagnosis.image import most_specific
from windlass.kube.diagnosis.pod import explain, needs_events
from windlass.kube.explanation import Explanation
from windlass.kube.pod_state import read_pod_state
from windlass.model.errors import WindlassError
from windlass.model.status import Phase
from windlass.runtimes.kubernetes.attempts.pod_attempt import PodAttempt
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.objects import api_objects
from windlass.runtimes.kubernetes.objects.manifests import CONTAINER
from windlass.runtimes.kubernetes.retry_queue import RetryQueue

SOON = 2.0  # seconds between checks while a new pod has no reason yet
AGAIN = 10.0
_NEW = 30.0  # seconds after which a pod without a reason is no longer new
_SHARE = 10  # the pause after a check is this many times as long as the check

_REACHING_AGENT = Explanation("ReachingAgent", "reaching its agent")
_log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    attempt: PodAttempt
    since: float
    version: int  # the pod's resource version at the last check


class PendingReasons:
    """Checks pending pods and stores the reason why each of them waits."""

    def __init__(self, view: ClusterView, notify: Callable[[str], None]) -> None:
        """Set up the checks. `notify` is called with the uid of each job that has a new reason."""
        self._view = view
        self._notify = notify
        self._checks = RetryQueue(workers=1)
        self._lock = threading.Lock()
        self._waiting: dict[str, dict[str, _Waiting]] = {}  # by namespace, then by pod uid
        self._reasons: dict[str, Explanation | None] = {}  # by pod uid
        self._due: dict[str, float] = {}  # when to check each namespace next
        # The earliest time for the next check of each namespace. It limits the load that checks
        # cause.
        self._rested: dict[str, float] = {}

    def of(self, pod: Object) -> str:
        """Return the reason why a pod does not start, or "" if the reason is not known."""
        return str(self._reasons.get(uid_of(pod)) or "")

    def wait_with(self, namespace: str, attempt: PodAttempt, pod: Object) -> None:
        """Schedule an early check if a pending pod is new or has changed since its last check."""
        uid, version, now = uid_of(pod), version_of(pod), time.monotonic()
        with self._lock:
            waiting = self._waiting.setdefault(namespace, {})
            before = waiting.get(uid)
            if before is not None and before.version == version:
                return
            waiting[uid] = _Waiting(attempt, now if before is None else before.since, version)
        self._schedule_check(namespace, now + SOON)

    def forget(self, pod: Object) -> None:
        """Drop a deleted pod's stored reason."""
        with self._lock:
            self._reasons.pop(uid_of(pod), None)

    def close(self) -> None:
        """Stop all checks of pending pods."""
        self._checks.close()

    def _schedule_check(self, namespace: str, when: float) -> None:
        """Schedule a check of a namespace at `when`, unless an earlier check is scheduled."""
        with self._lock:
            when = max(when, self._rested.get(namespace, 0.0))
            if self._due.get(namespace, float("inf")) <= when:
                return
            self._due[namespace] = when
        after = max(when - time.monotonic(), 0.0)
        self._checks.do(namespace, partial(self._check_namespace, namespace), after=after)

    def _check_namespace(self, namespace: str) -> None:
        began = time.monotonic()
        with self._lock:
            self._due.pop(namespace, None)
            waiting = dict(self._waiting.get(namespace, {}))
        pods = self._pods(namespace, waiting)
        events = self._events(namespace, [pod for pod in pods.values() if _is_worth_asking(pod)])
        now, news = time.time(), set()
        for uid, pod in pods.items():
            before = self._reasons.get(uid)
            reason = most_specific(before, _reason_for(pod, events.get(uid, ()), now))
            if before != reason:
                news.add(waiting[uid].attempt.uid)
            self._reasons[uid] = reason
        self._drop(namespace, waiting, pods)
        ended = time.monotonic()
        is_new = any(
            not self._reasons.get(uid) and ended - waiting[uid].since < _NEW for uid in pods
        )
        self._rested[namespace] = ended + _SHARE * (ended - began)
        if pods:
            self._schedule_check(namespace, ended + (SOON if is_new else AGAIN))
        for job in news:
            self._notify(job)

    def _pods(self, namespace: str, waiting: Mapping[str, _Waiting]) -> dict[str, Object]:
        """Return the current objects of those pods in `waiting` that have not started yet."""
        watcher = self._view.now(namespace)
        pods = {} if watcher is None else {uid: watcher.get(uid) for uid in waiting}
        return {
            uid: pod
            for uid, pod in pods.items()
            if pod is not None
            and not (waiting[uid].attempt.was_begun or waiting[uid].attempt.has_ended)
        }

    def _events(self, namespace: str, pods: Sequence[Object]) -> Mapping[str, Sequence[Object]]:
        if not pods:
            return {}
        try:
            return api_objects.fetch_events(self._view.connected(), namespace, map(uid_of, pods))
        except WindlassError as error:  # most pods show the reason without events
            _log.info("events of %s: %s", namespace, error.message)
            return {}

    def _drop(
        self, namespace: str, looked: Mapping[str, _Waiting], left: Mapping[str, Object]
    ) -> None:
        """Drop the stored reasons of checked pods that no longer wait.

        `left` contains the waiting pods.
        """
        with self._lock:
            waiting = self._waiting.get(namespace, {})
            for uid in looked:
                if uid not in left:
                    waiting.pop(uid, None)
                    self._reasons.pop(uid, None)
            if not waiting:
                self._waiting.pop(namespace, None)


def _is_worth_asking(pod: Object) -> bool:
    return read_pod_state(pod, CONTAINER).phase is Phase.PENDING and needs_events(pod)


def _reason_for(pod: Object, events: Sequence[Object], now: float) -> Explanation | None:
    if read_pod_state(pod, CONTAINER).phase is not Phase.PENDING:
        return _REACHING_AGENT
    return explain(pod, events, now)

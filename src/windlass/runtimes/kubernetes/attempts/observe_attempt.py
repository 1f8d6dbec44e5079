"""Determines an attempt's state from its files, its pod, and the reason why the pod waits."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.api.resource_kinds import Object
from windlass.kube.api.watch import Watcher
from windlass.kube.pod_state import read_pod_state
from windlass.model.status import Phase, Replica
from windlass.runtimes.kubernetes.attempts.pending_reasons import PendingReasons
from windlass.runtimes.kubernetes.attempts.pod_attempt import HAND_OVER, PodAttempt
from windlass.runtimes.kubernetes.cluster_view import ClusterView
from windlass.runtimes.kubernetes.objects import names as pod_names
from windlass.runtimes.kubernetes.objects.manifests import CONTAINER, JobRecord
from windlass.runtimes.kubernetes.pod_actions import PodActions
from windlass.runtimes.kubernetes.retry_queue import RetryQueue


class AttemptObserver:
    """Determines the state of attempts, and schedules the actions that follow from the state."""

    def __init__(
        self,
        retries: RetryQueue,
        view: ClusterView,
        actions: PodActions,
        notify: Callable[[str], None],
    ) -> None:
        """Set up the observer. `notify` gets the uid of each job whose state may have changed."""
        self._retries = retries
        self._view = view
        self._actions = actions
        self._notify = notify
        self._reasons = PendingReasons(view, notify)

    def observe(
        self,
        record: JobRecord,
        attempt: PodAttempt,
        watcher: Watcher | None,
        *,
        is_seen: bool,
        now: float,
    ) -> Replica:
        """Return the state of an attempt.

        `is_seen` says whether `watcher` contains all pods of the namespace.
        """
        name = pod_names.pod_name(record.base, attempt.replica)
        # Read this before reading the watch. Otherwise, a pod created in between would count as
        # deleted.
        was_made = attempt.was_made
        is_seen = is_seen and was_made and self._view.now(record.namespace) is watcher
        pod = None if watcher is None else watcher.at(record.namespace, name)
        if pod is None and is_seen and not (attempt.has_ended or attempt.is_stop_requested):
            # The watch selects pods by label, and users may remove the labels from a running pod.
            is_seen = self._actions.is_gone(record, attempt)
        trouble = self._view.trouble(record)
        unseen = trouble.message_with_hint
        if trouble.message and not trouble.is_busy and attempt.is_stop_requested:
            unseen = f"{trouble.message}; to give it up: windlass stop --force {record.trial_id}"
        seen = attempt.observe(
            pod,
            is_seen=is_seen,
            waits_for=self._waits_for(attempt, pod, unseen),
            unseen=unseen,
            now=now,
        )
        if seen.phase.is_final and not attempt.is_stop_requested:
            # the Secret may have been deleted together with the pod
            self._actions.forget_owner(record)
        if pod is None:
            return seen
        if (at := attempt.settles_at(pod)) is not None:
            self.reconcile_after(record.uid, max(at - now, 0.0))
        if seen.phase.is_final and not read_pod_state(pod, CONTAINER).phase.is_final:
            if _is_over_late(attempt, pod, now):
                self._actions.end(record, attempt, grace=0)
        elif seen.phase is Phase.PENDING and not seen.deleting:
            self._reasons.wait_with(record.namespace, attempt, pod)
        return seen

    def forget(self, pod: Object) -> None:
        """Forget why a pod was pending, because the pod was deleted."""
        self._reasons.forget(pod)

    def close(self) -> None:
        """Stop the checks of pending pods."""
        self._reasons.close()

    def _waits_for(self, attempt: PodAttempt, pod: Object | None, unseen: str) -> str:
        """Return the reason why an attempt has not started, or "" if the reason is not known."""
        trouble = self._actions.why_not_made(attempt)
        if pod is None and trouble:
            return trouble
        reason = "" if pod is None else self._reasons.of(pod)
        return unseen or reason

    def reconcile_after(self, uid: str, after: float) -> None:
        """Have a job reconciled again after this many seconds."""
        key: Hashable = ("look", uid)
        if not self._retries.is_wanted(key):
            self._retries.do(key, partial(self._notify, uid), after=after + 0.05)


def _is_over_late(attempt: PodAttempt, pod: Object, now: float) -> bool:
    """Return whether a pod has outlived its attempt by more than the time for uploads."""
    ended = attempt.observe(pod, is_seen=True, waits_for="", now=now).ended
    return ended is None or now > ended + HAND_OVER

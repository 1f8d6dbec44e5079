"""How an attempt stands: by its files, by its pod as it is seen, and why that does not start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.explaining import explain
from windlass.kube.kinds import Object, uid_of
from windlass.kube.pods import state_of
from windlass.kube.watching import Watcher
from windlass.model.errors import WindlassError
from windlass.model.status import Phase, Replica
from windlass.runtimes.kubernetes import naming, objects
from windlass.runtimes.kubernetes.attempts import HAND_OVER, PodAttempt
from windlass.runtimes.kubernetes.building import CONTAINER, Claim
from windlass.runtimes.kubernetes.deeds import Deeds
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.sight import Sight

_EXPLAIN_AFTER = 1.5  # seconds that a pod may take to start without a word about it
_EXPLAIN_AGAIN = 10.0

_log = logging.getLogger(__name__)


class Observing:
    """Looks at attempts; what has to follow from a look by itself is had done."""

    def __init__(
        self, errands: Errands, sight: Sight, deeds: Deeds, tell: Callable[[str], None]
    ) -> None:
        """`tell` is called with the uid of a job of which there is more to see."""
        self._errands = errands
        self._sight = sight
        self._deeds = deeds
        self._tell = tell
        self._reasons: dict[str, str] = {}  # why a pod does not start, by its uid

    def observe(
        self,
        claim: Claim,
        attempt: PodAttempt,
        watcher: Watcher | None,
        *,
        is_seen: bool,
        now: float,
    ) -> Replica:
        """How it stands; `is_seen` is whether all pods are, that is whether none is gone."""
        name = naming.pod_name(claim.base, attempt.replica)
        # Before the look: a pod that is made between the two is not one that is gone.
        was_made = attempt.was_made
        is_seen = is_seen and was_made and self._sight.now(claim.namespace) is watcher
        pod = None if watcher is None else watcher.at(claim.namespace, name)
        unseen = self._sight.trouble(claim)
        if unseen and attempt.is_told_to_stop:
            unseen = f"{unseen.rstrip('.')}; to give it up: windlass stop --force {claim.trial_id}"
        seen = attempt.observe(
            pod,
            is_seen=is_seen,
            waits_for=self._waits_for(attempt, pod, unseen),
            unseen=unseen,
            now=now,
        )
        if pod is None:
            if seen.phase.is_final:
                self._deeds.forget_owner(claim)  # it may be gone as well
            return seen
        if (at := attempt.settles_at(pod)) is not None:
            self.look_later(claim.uid, max(at - now, 0.0))
        if seen.phase.is_final and not state_of(pod, CONTAINER).phase.is_final:
            if _is_over_late(attempt, pod, now):
                self._deeds.end(claim, attempt, grace=0)
        elif seen.phase is Phase.PENDING and not seen.deleting:
            self._explain_soon(claim, attempt, pod)
        return seen

    def forget(self, pod: Object) -> None:
        """A pod is gone."""
        self._reasons.pop(uid_of(pod), None)

    def _waits_for(self, attempt: PodAttempt, pod: Object | None, unseen: str) -> str:
        """What there is to say of one that has not begun."""
        trouble = self._deeds.why_not_made(attempt)
        if pod is None and trouble:
            return trouble
        reason = "" if pod is None else self._reasons.get(uid_of(pod), "")
        return unseen or reason

    def look_later(self, uid: str, after: float) -> None:
        """Have a job looked at again after so many seconds."""
        key: Hashable = ("look", uid)
        if not self._errands.is_wanted(key):
            self._errands.do(key, partial(self._tell, uid), after=after + 0.05)

    # -- why a pod does not start -------------------------------------------------------

    def _explain_soon(self, claim: Claim, attempt: PodAttempt, pod: Object) -> None:
        key: Hashable = ("explain", uid_of(pod))
        if self._errands.is_wanted(key):
            return
        after = _EXPLAIN_AGAIN if uid_of(pod) in self._reasons else _EXPLAIN_AFTER
        self._errands.do(key, partial(self._explain, claim, attempt, uid_of(pod)), after=after)

    def _explain(self, claim: Claim, attempt: PodAttempt, pod_uid: str) -> None:
        watcher = self._sight.now(claim.namespace)
        pod = None if watcher is None else watcher.get(pod_uid)
        if pod is None or attempt.was_begun or attempt.has_ended:
            self._reasons.pop(pod_uid, None)
            return
        if state_of(pod, CONTAINER).phase is not Phase.PENDING:
            told = "reaching its agent"
        else:
            try:
                events = objects.events_of(self._sight.connected(), pod)
            except WindlassError as error:
                _log.info("events of %s: %s", pod["metadata"]["name"], error.message)
                events = []
            found = explain(pod, events, time.time())
            told = "" if found is None else str(found)
        if self._reasons.get(pod_uid, "") != told:
            self._reasons[pod_uid] = told
            self._tell(claim.uid)
        self._explain_soon_again(claim, attempt, pod_uid)

    def _explain_soon_again(self, claim: Claim, attempt: PodAttempt, pod_uid: str) -> None:
        key: Hashable = ("explain", pod_uid)
        again = partial(self._explain, claim, attempt, pod_uid)
        self._reasons.setdefault(pod_uid, "")
        self._errands.do(key, again, after=_EXPLAIN_AGAIN)


def _is_over_late(attempt: PodAttempt, pod: Object, now: float) -> bool:
    """Whether a pod outlived its attempt for longer than it takes to leave."""
    ended = attempt.observe(pod, is_seen=True, waits_for="", now=now).ended
    return ended is None or now > ended + HAND_OVER

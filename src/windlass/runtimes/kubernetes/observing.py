"""How an attempt stands: by its files, by its pod as it is seen, and why that does not start."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

from windlass.kube.kinds import Object
from windlass.kube.pods import state_of
from windlass.kube.watching import Watcher
from windlass.model.status import Phase, Replica
from windlass.runtimes.kubernetes import naming
from windlass.runtimes.kubernetes.attempts import HAND_OVER, PodAttempt
from windlass.runtimes.kubernetes.building import CONTAINER, Claim
from windlass.runtimes.kubernetes.deeds import Deeds
from windlass.runtimes.kubernetes.errands import Errands
from windlass.runtimes.kubernetes.reasons import Reasons
from windlass.runtimes.kubernetes.sight import Sight


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
        self._reasons = Reasons(sight, tell)

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
        if pod is None and is_seen and not (attempt.has_ended or attempt.is_told_to_stop):
            # They are seen by their labels, which anybody may take away from one that runs on.
            is_seen = self._deeds.is_gone(claim, attempt)
        trouble = self._sight.trouble(claim)
        unseen = trouble.told
        if trouble.message and not trouble.is_busy and attempt.is_told_to_stop:
            unseen = f"{trouble.message}; to give it up: windlass stop --force {claim.trial_id}"
        seen = attempt.observe(
            pod,
            is_seen=is_seen,
            waits_for=self._waits_for(attempt, pod, unseen),
            unseen=unseen,
            now=now,
        )
        if seen.phase.is_final and not attempt.is_told_to_stop:
            self._deeds.forget_owner(claim)  # it may be gone as well
        if pod is None:
            return seen
        if (at := attempt.settles_at(pod)) is not None:
            self.look_later(claim.uid, max(at - now, 0.0))
        if seen.phase.is_final and not state_of(pod, CONTAINER).phase.is_final:
            if _is_over_late(attempt, pod, now):
                self._deeds.end(claim, attempt, grace=0)
        elif seen.phase is Phase.PENDING and not seen.deleting:
            self._reasons.wait_with(claim.namespace, attempt, pod)
        return seen

    def forget(self, pod: Object) -> None:
        """A pod is gone."""
        self._reasons.forget(pod)

    def close(self) -> None:
        """Look at nothing any more."""
        self._reasons.close()

    def _waits_for(self, attempt: PodAttempt, pod: Object | None, unseen: str) -> str:
        """What there is to say of one that has not begun."""
        trouble = self._deeds.why_not_made(attempt)
        if pod is None and trouble:
            return trouble
        reason = "" if pod is None else self._reasons.of(pod)
        return unseen or reason

    def look_later(self, uid: str, after: float) -> None:
        """Have a job looked at again after so many seconds."""
        key: Hashable = ("look", uid)
        if not self._errands.is_wanted(key):
            self._errands.do(key, partial(self._tell, uid), after=after + 0.05)


def _is_over_late(attempt: PodAttempt, pod: Object, now: float) -> bool:
    """Whether a pod outlived its attempt for longer than it takes to leave."""
    ended = attempt.observe(pod, is_seen=True, waits_for="", now=now).ended
    return ended is None or now > ended + HAND_OVER

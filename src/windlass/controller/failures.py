"""Failures: what could not be done for each job, how often, and what of that is told."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from windlass.model.status import Event, EventKind, ReplicaId

TOLD_AGAIN = 5  # a failure that goes on is told once more after so many

_log = logging.getLogger(__name__)


class _Failed(msgspec.Struct, frozen=True):
    reason: str
    text: str
    count: int  # in a row


class Failures:
    """What failed of each job since all that was to be done for it was done.

    It is told when it is new, and once more when it stays. What keeps all replicas of a job from
    starting is one failure, whichever of them it befell.

    >>> failures, error = Failures(), OSError("no room")
    >>> first, second = ReplicaId("worker", 0, 1), ReplicaId("worker", 1, 1)
    >>> failures.tell("job", first, "CreateFailed", "starting the first", error, 0.0)[0].message
    'starting the first failed: no room'
    >>> failures.tell("job", second, "CreateFailed", "starting the second", error, 0.0)
    []
    """

    def __init__(self) -> None:
        # Of each job only one worker at a time touches its entries.
        self._jobs: dict[str, dict[ReplicaId | str, _Failed]] = {}

    def tell(
        self,
        uid: str,
        about: ReplicaId | str,
        reason: str,
        what: str,
        error: Exception,
        now: float,
    ) -> list[Event]:
        """What there is to tell of something that failed: nothing, if it was told already."""
        text = str(error) or type(error).__name__
        if self._count(uid, about, reason, text) not in (1, TOLD_AGAIN):
            return []
        message = f"{what} failed: {text}"
        _log.warning("job %s: %s", uid, message)
        return [Event(time=now, kind=EventKind.WARNING, reason=reason, message=message)]

    def rarest_first(self, uid: str, replicas: Iterable[ReplicaId]) -> list[ReplicaId]:
        """Those that never failed before those that did: one alone must not hold up the others."""
        known = self._jobs.get(uid, {})
        return sorted(replicas, key=lambda each: known[each].count if each in known else 0)

    def discard(self, uid: str, about: ReplicaId | str) -> None:
        """It was done after all."""
        self._jobs.get(uid, {}).pop(about, None)

    def forget(self, uid: str) -> None:
        """All was done, or nobody has been told: whatever fails next is new."""
        self._jobs.pop(uid, None)

    def _count(self, uid: str, about: ReplicaId | str, reason: str, text: str) -> int:
        """How often the same has failed by now, of whatever it is a failure."""
        known = self._jobs.setdefault(uid, {})
        last = known.get(about)
        is_same = last is not None and (last.reason, last.text) == (reason, text)
        known[about] = _Failed(reason, text, last.count + 1 if last and is_same else 1)
        return sum(
            each.count for each in known.values() if (each.reason, each.text) == (reason, text)
        )

"""Counts the failures of each job's actions, and decides which failures become events."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import msgspec

from windlass.model.status import Event, EventKind, ReplicaId

_OF_START = ("CreateFailed", "AddressesFailed")
REPORT_AGAIN_AFTER = 5  # a failure that occurred this many times is reported a second time

_log = logging.getLogger(__name__)


class _Failure(msgspec.Struct, frozen=True):
    reason: str
    text: str
    count: int  # consecutive occurrences


class FailureLog:
    """Each job's failures since the last time that all its actions succeeded.

    A failure is reported when it is new, and once more when it persists. The same failure of
    several replicas counts as one failure.

    >>> failures, error = FailureLog(), OSError("no room")
    >>> first, second = ReplicaId("worker", 0, 1), ReplicaId("worker", 1, 1)
    >>> failures.record("job", first, "CreateFailed", "starting the first", error, 0.0)[0].message
    'starting the first failed: no room'
    >>> failures.record("job", second, "CreateFailed", "starting the second", error, 0.0)
    []
    """

    def __init__(self) -> None:
        # This dict needs no lock, because only one worker at a time reconciles a job.
        self._jobs: dict[str, dict[ReplicaId | str, _Failure]] = {}

    def record(
        self,
        uid: str,
        about: ReplicaId | str,
        reason: str,
        what: str,
        error: Exception,
        now: float,
    ) -> list[Event]:
        """Count an action's failure.

        Return an event, or no event if the failure was already reported.
        """
        text = str(error) or type(error).__name__
        if self._count(uid, about, reason, text) not in (1, REPORT_AGAIN_AFTER):
            return []
        message = f"{what} failed: {text}"
        _log.warning("job %s: %s", uid, message)
        return [Event(time=now, kind=EventKind.WARNING, reason=reason, message=message)]

    def rarest_first(self, uid: str, replicas: Iterable[ReplicaId]) -> list[ReplicaId]:
        """Sort replicas, fewest failures first, so that a failing replica does not block others."""
        failures = self._jobs.get(uid, {})
        return sorted(
            replicas, key=lambda replica: failures[replica].count if replica in failures else 0
        )

    def latest(self, uid: str) -> str:
        """Return why one of a job's replicas cannot start at present, or "". Thread-safe."""
        failures = dict(self._jobs.get(uid, {})).values()
        return next((failure.text for failure in failures if failure.reason in _OF_START), "")

    def discard(self, uid: str, about: ReplicaId | str) -> None:
        """Discard the failures of one replica after its action succeeded."""
        self._jobs.get(uid, {}).pop(about, None)

    def forget(self, uid: str) -> None:
        """Discard all failures of a job. The next failure then counts as new."""
        self._jobs.pop(uid, None)

    def _count(self, uid: str, about: ReplicaId | str, reason: str, text: str) -> int:
        """Count a failure. Return how often this failure occurred across a job's replicas."""
        failures = self._jobs.setdefault(uid, {})
        last = failures.get(about)
        is_same = last is not None and (last.reason, last.text) == (reason, text)
        failures[about] = _Failure(reason, text, last.count + 1 if last and is_same else 1)
        return sum(
            failure.count
            for failure in failures.values()
            if (failure.reason, failure.text) == (reason, text)
        )

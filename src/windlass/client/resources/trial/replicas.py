"""Defines `Replica`, which shows a trial's replica as of one attempt."""

from __future__ import annotations

from datetime import datetime

import msgspec

from windlass.client.resources.trial.replica_names import has_several as has_several
from windlass.model.records import Attempt, TrialRecord
from windlass.model.status import Pod
from windlass.model.text.quantities import format_duration
from windlass.model.text.times import to_datetime


class Replica(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One replica of a trial, as of one of its attempts.

    `trial.replicas` has each replica's newest attempt, and `trial.attempts` has all attempts. The
    attempt number is 0 if no attempt has started yet.

    >>> Replica(role="worker", index=1, attempt=2, phase="Failed", exit_code=137, node="oak")
    <worker-1 attempt 2: Failed, exit code 137, on oak>
    """

    role: str
    index: int
    attempt: int = 0
    phase: str = "Pending"
    exit_code: int | None = None
    reason: str = ""
    message: str = ""
    started: datetime | None = None
    ended: datetime | None = None
    node: str = ""
    address: str = ""
    pod: Pod | None = None  # set only for replicas in a cluster

    @property
    def name(self) -> str:
        """The replica's role and index, such as `worker-1`."""
        return f"{self.role}-{self.index}"

    def __repr__(self) -> str:
        parts = [self.phase]
        if self.exit_code is not None:
            parts.append(f"exit code {self.exit_code}")
        if self.started is not None and self.ended is not None:
            seconds = (self.ended - self.started).total_seconds()
            parts.append(f"ran {format_duration(max(seconds, 0.0))}")
        if self.node:
            parts.append(f"on {self.node}")
        if self.message:
            parts.append(self.message)
        which = f" attempt {self.attempt}" if self.attempt else ""
        return f"<{self.name}{which}: {', '.join(parts)}>"


def replicas_of(trial: TrialRecord) -> tuple[Replica, ...]:
    """Return a trial's current replicas, ordered by role and index."""
    # Attempts are in order, so the newest one replaces older ones.
    newest = {(attempt.role, attempt.index): attempt for attempt in trial.attempts}
    return tuple(
        _replica(role.name, index, newest.get((role.name, index)))
        for role in trial.spec.roles
        for index in range(role.replicas)
    )


def attempts_of(trial: TrialRecord) -> tuple[Replica, ...]:
    """Return all attempts of a trial's replicas."""
    return tuple(_of_attempt(attempt) for attempt in trial.attempts)


def _replica(role: str, index: int, attempt: Attempt | None) -> Replica:
    if attempt is None:
        return Replica(role=role, index=index)
    return _of_attempt(attempt)


def _of_attempt(attempt: Attempt) -> Replica:
    times = {"started": to_datetime(attempt.started), "ended": to_datetime(attempt.ended)}
    return Replica(**{**msgspec.structs.asdict(attempt), **times})

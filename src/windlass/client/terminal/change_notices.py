"""Notices of changes of a watched trial: restarts, suspensions, new numbers of replicas.

Each change is reported once, even if the stream repeats or skips a record: restarts are counted,
and other changes are the differences between one record and the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windlass.client.resources.trial.replica_names import has_several
from windlass.model.job import JobSpec
from windlass.model.records import TrialRecord
from windlass.model.status import Event

_RESTART = "ReplicaRestarting"


class ChangeNotices:
    """Describes the changes of a trial from one record to the next.

    `fetch_events` fetches all events, and is called only if the trial was restarted: a condition
    has the first of several replicas that ended together, and no other.
    """

    def __init__(self, fetch_events: Callable[[], Sequence[Event] | None]) -> None:
        self._fetch_events = fetch_events
        self._spec: JobSpec | None = None
        self._restarts = 0  # that were reported

    def next(self, trial: TrialRecord) -> Iterator[str]:
        """Yield a notice of each change since the last record; none for the first record."""
        before, self._spec = self._spec, trial.spec
        if before is None:
            self._restarts = trial.restarts
            return
        called = f"trial {trial.id} ({trial.name})"
        if trial.restarts > self._restarts and (events := self._fetch_events()) is not None:
            messages = [event.message for event in events if event.reason == _RESTART]
            # The last lines of a later restart may still arrive.
            for message in messages[self._restarts : trial.restarts]:
                yield message if has_several(trial) else f"{called}: {message}"
            self._restarts = trial.restarts
        if trial.state.is_final:
            return
        if before.suspend and not trial.spec.suspend:
            yield f"{called} is resumed"
        if scaled := _resized(before, trial.spec):
            yield f"{called} is scaled: {scaled}"
        if trial.spec.suspend and not before.suspend:
            yield f"{called} is suspended. To continue: windlass resume {trial.id}"


def _resized(before: JobSpec, after: JobSpec) -> str:
    return ", ".join(
        f"{old.name} {old.replicas} -> {new.replicas}"
        for old, new in zip(before.roles, after.roles, strict=True)
        if old.replicas != new.replicas
    )

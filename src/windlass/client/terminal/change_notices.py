"""Describes changes to a watched trial, such as restarts, suspensions and new sizes.

Each change is reported once, even if the event stream repeats or skips records. Restarts are
counted. All other changes are found by comparing each record with the previous one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windlass.client.resources.trial.replica_names import has_several
from windlass.model.job import JobSpec
from windlass.model.records import TrialRecord
from windlass.model.status import Event

_RESTART = "ReplicaRestarting"


class ChangeNotices:
    """Describes the differences between successive records of a trial.

    `fetch_events` fetches all of the trial's events, and is called only after a restart. The
    conditions in the record do not suffice, because they name only the first failed replica.
    """

    def __init__(self, fetch_events: Callable[[], Sequence[Event] | None]) -> None:
        self._fetch_events = fetch_events
        self._spec: JobSpec | None = None
        self._restarts = 0  # the number of restarts reported so far

    def next(self, trial: TrialRecord) -> Iterator[str]:
        """Yield a notice for each change since the previous record.

        The first record yields no notices.
        """
        before, self._spec = self._spec, trial.spec
        if before is None:
            self._restarts = trial.restarts
            return
        called = f"trial {trial.id} ({trial.name})"
        if trial.restarts > self._restarts and (events := self._fetch_events()) is not None:
            messages = [event.message for event in events if event.reason == _RESTART]
            # A later restart is reported with a later record, after the log lines that belong to
            # it.
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

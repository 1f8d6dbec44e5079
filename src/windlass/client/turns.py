"""What happens to a trial while it is watched: restarts, suspensions, other sizes.

Each is told once, whatever is missed or heard twice of the stream: restarts are counted, and all
else is what differs between one record and the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windlass.client.naming import has_several
from windlass.model.job import JobSpec
from windlass.model.records import TrialRecord
from windlass.model.status import Event

_RESTART = "ReplicaRestarting"


class Turns:
    """Says what happened to a trial from one record to the next.

    `ask` is asked for all that happened, and only if the trial was started again: a condition
    tells of the first of several replicas that ended together, and of no other.
    """

    def __init__(self, ask: Callable[[], Sequence[Event] | None]) -> None:
        self._ask = ask
        self._spec: JobSpec | None = None
        self._restarts = 0  # that were told

    def next(self, trial: TrialRecord) -> Iterator[str]:
        """What to tell; nothing of what was before the first record."""
        before, self._spec = self._spec, trial.spec
        if before is None:
            self._restarts = trial.restarts
            return
        called = f"trial {trial.id} ({trial.name})"
        if trial.restarts > self._restarts and (events := self._ask()) is not None:
            said = [event.message for event in events if event.reason == _RESTART]
            # Of one that came since, the last lines are yet to come.
            for message in said[self._restarts : trial.restarts]:
                yield message if has_several(trial) else f"{called}: {message}"
            self._restarts = trial.restarts
        if trial.state.is_final:
            return
        if before.suspend and not trial.spec.suspend:
            yield f"{called} is resumed"
        if scaled := _resized(before, trial.spec):
            yield f"{called} is scaled: {scaled}"
        if trial.spec.suspend and not before.suspend:
            yield f"{called} is suspended; to go on: windlass resume {trial.id}"


def _resized(before: JobSpec, after: JobSpec) -> str:
    return ", ".join(
        f"{old.name} {old.replicas} -> {new.replicas}"
        for old, new in zip(before.roles, after.roles, strict=True)
        if old.replicas != new.replicas
    )

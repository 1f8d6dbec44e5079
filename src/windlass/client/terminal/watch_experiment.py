"""Waits for an experiment's trials, with a live table in a terminal."""

from __future__ import annotations

from collections.abc import Collection

from windlass.client.connection.experiment_events import ExperimentEvents
from windlass.client.connection.transport import Transport
from windlass.client.resources.trial.trial import Trial
from windlass.client.terminal.experiment_progress import Progress, failure_reason, what_it_raised
from windlass.client.terminal.live_lines import Live
from windlass.client.terminal.sigterm import sigterm_interrupts
from windlass.model.errors import ExperimentFailed, WindlassError
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.text.display import clean

_MOST_LISTED = 10


class ExperimentWait:
    """Waits for an experiment's trials, except auxiliary ones.

    With `only`, it waits for the trials with these ids. Any thread may end the wait with `cut`.
    """

    def __init__(
        self,
        transport: Transport,
        experiment: ExperimentRecord,
        timeout: float | None = None,
        only: Collection[int] | None = None,
    ) -> None:
        self._following = ExperimentEvents(transport, experiment.id, timeout=timeout)
        self.progress = Progress(experiment, only)
        self.cut = self._following.cut

    def run(self) -> Progress:
        """Wait until all trials except auxiliary ones have ended, and return their records."""
        with sigterm_interrupts(), Live(self.progress.table) as live:
            try:
                self.follow(live)
            except KeyboardInterrupt:
                live.say([(self._left(), "")])
                raise
        return self.progress

    def follow(self, live: Live) -> None:
        """Process events until all trials have ended, and then print the conclusion."""
        for news in self._following:
            self.progress.learn(news)
            if isinstance(news, ExperimentRecord) and self.progress.is_over:
                live.say(*self.progress.conclusion())
                return

    def _left(self) -> str:
        record = self.progress.experiment
        number = sum(not trial.state.is_final for trial in self.progress.ordinary)
        what = f"{number} {'trial goes' if number == 1 else 'trials go'} on"
        them = "it" if number == 1 else "them"
        return (
            f"Left experiment {record.id} ({record.name}): {what}. "
            f"To stop {them}: windlass stop --experiment {record.id}"
        )


def experiment_error(progress: Progress, transport: Transport) -> ExperimentFailed | None:
    """Build the error that lists the failed trials. Return None if all trials succeeded."""
    failed = progress.failed
    if not failed:
        return None
    record = progress.experiment
    lines = [
        f"trial {trial.id} ({trial.name}): {failure_reason(trial)}"
        for trial in failed[:_MOST_LISTED]
    ]
    lines[1:1] = [f"  {line}" for line in _last_lines(failed[0], transport)]
    if len(failed) > _MOST_LISTED:
        lines.append(
            f"and {len(failed) - _MOST_LISTED} more: windlass ls -e {record.name} -s failed"
        )
    first = failed[0].id
    lines.append(f"See why: windlass show {first}, windlass logs {first}")
    return ExperimentFailed(
        f"Experiment {record.id} ({record.name}): {len(failed)} of "
        f"{progress.total} {'trial' if progress.total == 1 else 'trials'} did not succeed.",
        hint="\n".join(lines),
        experiment_id=record.id,
        trial_ids=tuple(trial.id for trial in failed),
    )


def _last_lines(trial: TrialRecord, transport: Transport) -> list[str]:
    """Return a trial's last log lines, or [] if its record contains an exception."""
    if what_it_raised(trial):
        return []
    try:
        return [clean(str(line)) for line in Trial[object](transport, trial).logs(tail=3)]
    except WindlassError:
        return []  # the trial's own error matters more

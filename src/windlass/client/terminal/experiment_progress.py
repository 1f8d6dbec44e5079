"""Formats an experiment's progress as lines for a waiting user."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from windlass.client.connection.experiment_events import ExperimentNews
from windlass.client.resources.trial.outcome import how_it_ended
from windlass.client.terminal.live_lines import Line
from windlass.client.terminal.status_line import share_of
from windlass.display.table import STATE_COLOURS
from windlass.model.records import ExperimentRecord, Summary, TrialRecord, TrialState, own_metrics
from windlass.model.run_time import seconds_run
from windlass.model.text.quantities import format_duration

_MOST_ROWS = 20
_MOST_FAILED = 10
_MOST_METRICS = 4
_LONGEST_CELL = 40
_LONGEST_VALUE = 24


class Progress:
    """The newest records of an experiment and its trials, as updated by an event stream.

    With `only`, trials with other ids are ignored.
    """

    def __init__(self, experiment: ExperimentRecord, only: Collection[int] | None = None) -> None:
        self.experiment = experiment
        self.trials: dict[int, TrialRecord] = {}
        self._only = only

    def learn(self, news: ExperimentNews) -> None:
        """Update the records with an event from the stream."""
        if isinstance(news, ExperimentRecord):
            self.experiment = news
        elif isinstance(news, TrialRecord) and (self._only is None or news.id in self._only):
            self.trials[news.id] = news

    @property
    def ordinary(self) -> list[TrialRecord]:
        """All trials except auxiliary ones.

        Auxiliary trials, such as dashboards, do not affect the experiment's success.
        """
        return [trial for trial in self._trials_now() if not trial.auxiliary]

    @property
    def total(self) -> int:
        """The number of trials except auxiliary ones."""
        return self.experiment.trials if self._only is None else len(self._only)

    @property
    def states(self) -> Mapping[str, int]:
        """The number of trials in each state."""
        if self._only is None:
            return self.experiment.states
        return Counter(trial.state.value for trial in self.ordinary)

    @property
    def is_over(self) -> bool:
        """Whether all trials except auxiliary ones have ended, and all outcomes are known."""
        goes_on = any(
            number and not TrialState(name).is_final for name, number in self.states.items()
        )
        ordinary = self.ordinary
        # The server lists active trials before it counts states, and a trial may end in between.
        all_ended = all(trial.state.is_final for trial in ordinary)
        return not goes_on and all_ended and len(ordinary) >= self.total

    @property
    def failed(self) -> list[TrialRecord]:
        """The finished trials that did not succeed, except auxiliary ones."""
        return [
            trial
            for trial in self.ordinary
            if trial.state.is_final and trial.state is not TrialState.SUCCEEDED
        ]

    def table(self) -> list[Line]:
        """Return the lines to show while trials run: counts by state, and active trials."""
        now = time.time()
        going = [
            trial
            for trial in self._trials_now()
            if not trial.state.is_final and trial.state is not TrialState.QUEUED
        ]
        queued = [trial for trial in self._trials_now() if trial.state is TrialState.QUEUED]
        lines: list[Line] = [self._head(int(now))]
        lines += _rows(going[:_MOST_ROWS], differing(self.ordinary), now)
        if len(going) > _MOST_ROWS:
            lines.append([(f"  and {len(going) - _MOST_ROWS} more", "dim")])
        if not going and queued and queued[0].message:
            lines.append([(f"  trial {queued[0].id} waits: {queued[0].message}", "dim")])
        return lines

    def conclusion(self) -> list[Line]:
        """Return the final summary, with counts by state and the failed trials."""
        ended = [trial.ended for trial in self.ordinary if trial.ended is not None]
        lines: list[Line] = [self._head(max(ended, default=time.time()))]
        vary = differing(self.ordinary)
        for trial in self.failed[:_MOST_FAILED]:
            params = _short(trial.params, vary)
            name = f"{trial.name} {params}".rstrip()
            lines.append(
                [
                    (f"  {trial.id}  ", ""),
                    (trial.state.value, STATE_COLOURS[trial.state]),
                    (f"  {name}: {failure_reason(trial)}", ""),
                ]
            )
        if len(self.failed) > _MOST_FAILED:
            lines.append([(f"  and {len(self.failed) - _MOST_FAILED} more", "")])
        return lines

    def _trials_now(self) -> list[TrialRecord]:
        """Return a copy of the list of trials, because another thread adds trials to the list."""
        return list(self.trials.values())

    def _head(self, now: float) -> Line:
        record = self.experiment
        created = [trial.created for trial in self.ordinary]
        passed = format_duration(max(now - min(created), 0.0)) if created else ""
        total, counts = self.total, self.states
        number = f"{total} {'trial' if total == 1 else 'trials'}"
        line: list[tuple[str, str]] = [
            (f"experiment {record.id} ", "bold"),
            (f"({record.name})", "name"),
            (f"  {number}: " if counts else f"  {number}" if total else "  no trials", ""),
        ]
        order = list(TrialState)
        states = sorted(counts, key=lambda name: order.index(TrialState(name)))
        for position, name in enumerate(states):
            comma = ", " if position else ""
            line.append((comma, ""))
            line.append((f"{counts[name]} {name.lower()}", STATE_COLOURS[TrialState(name)]))
        line.append((f"  {passed}", "dim"))
        return line


def failure_reason(trial: TrialRecord) -> str:
    """Return a short reason why a trial did not succeed."""
    return what_it_raised(trial) or how_it_ended(trial)


def what_it_raised(trial: TrialRecord) -> str:
    """Return a failed trial's exception as Python prints it, or "" if there is none."""
    if trial.error is None or not trial.error.type or trial.state is not TrialState.FAILED:
        return ""
    kind = trial.error.type.rpartition(".")[2]
    return f"{kind}: {trial.error.message}" if trial.error.message else kind


def differing(trials: Iterable[TrialRecord]) -> list[str]:
    """Return the names of parameters that differ between trials, in order of appearance.

    >>> differing([])
    []
    """
    seen: dict[str, str] = {}
    vary: dict[str, None] = {}
    listed = list(trials)
    for number, trial in enumerate(listed):
        for name, value in trial.params.items():
            text = repr(value)
            if name not in seen:
                seen[name] = text
                if number:
                    vary[name] = None  # earlier trials lack this parameter
            elif seen[name] != text:
                vary[name] = None
        for name in seen:
            if name not in trial.params:
                vary[name] = None
    return [name for name in seen if name in vary]


def _took(trial: TrialRecord, now: float) -> str:
    seconds = seconds_run(trial, now)
    return "-" if seconds is None else format_duration(int(seconds))


def _rows(trials: Sequence[TrialRecord], vary: Sequence[str], now: float) -> list[Line]:
    if not trials:
        return []
    heads = ("ID", "STATE", "TOOK", "NAME", "PARAMETERS", "METRICS")
    cells = [
        (
            str(trial.id),
            trial.state.value + (f" {trial.progress:.0%}" if share_of(trial) is not None else ""),
            _took(trial, now),
            _cut(trial.name + (" (auxiliary)" if trial.auxiliary else "")),
            _cut(_short(trial.params, vary)),
            _metrics(own_metrics(trial.metrics)),
        )
        for trial in trials
    ]
    widths = [max(len(row[column]) for row in [heads, *cells]) for column in range(len(heads))]
    empty = [not any(row[column] for row in cells) for column in range(len(heads))]
    shown = [column for column in range(len(heads)) if not empty[column]]

    def line(row: Sequence[str], styles: Mapping[int, str], otherwise: str = "") -> Line:
        spans = []
        for column in shown:
            text = row[column].rjust if column in (0, 2) else row[column].ljust
            spans.append((f"  {text(widths[column])}", styles.get(column, otherwise)))
        return spans

    lines = [line(heads, {}, "dim")]
    for row, trial in zip(cells, trials, strict=True):
        lines.append(line(row, {1: STATE_COLOURS[trial.state]}))
    return lines


def _short(params: Mapping[str, Any], vary: Sequence[str]) -> str:
    return " ".join(f"{name}={_value(params[name])}" for name in vary if name in params)


def _value(value: object) -> str:
    is_plain = isinstance(value, str) and value and not set(value) & set(" \t\n='\"")
    text = str(value) if is_plain else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _metrics(metrics: Mapping[str, Summary]) -> str:
    values = [
        f"{name} {summary.last:.4g}"
        for name, summary in metrics.items()
        if summary.last is not None
    ]
    steps = [summary.step for summary in metrics.values() if summary.step is not None]
    step = [f"step {max(steps)}"] if steps else []
    return "  ".join([*step, *values[:_MOST_METRICS]])


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"

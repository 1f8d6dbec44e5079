"""An experiment as HTML: its trials by state, and the newest of them."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.html.elements import Budget, dot, fragment, line, span, text
from windlass.display.html.tables import table
from windlass.display.table import STATE_COLOURS
from windlass.display.trial_columns import default_columns, trial_row
from windlass.model.records import ExperimentRecord, TrialRecord, TrialState
from windlass.model.text.quantities import format_ago

_LONGEST_DESCRIPTION = 400


def experiment_page(experiment: ExperimentRecord, newest: Sequence[TrialRecord], now: float) -> str:
    """Return an experiment as HTML, with a table of its newest trials, as far as fetched."""
    count = "1 trial" if experiment.trials == 1 else f"{experiment.trials} trials"
    facts = [count, f"created {format_ago(experiment.created, now)}"]
    if experiment.project != "default":
        facts.append(f"project {experiment.project}")
    head = line(
        span(f"Experiment {experiment.id}", "bold"),
        text(experiment.name),
        span(" · ".join([*facts, *experiment.labels]), "dim"),
    )
    states = line(_states(experiment))
    about = line(text(experiment.description, _LONGEST_DESCRIPTION))
    if not newest:
        return fragment(head, states, about)
    columns = default_columns(newest)
    rows = [trial_row(columns, trial, now) for trial in newest]
    left = experiment.trials - len(newest)
    more = f"{left} older trials are not shown." if left > 0 else ""
    budget = Budget(head, states, about)
    heads = [column.column for column in columns]
    return fragment(head, states, about, table(heads, rows, budget, more=more, hides_empty=True))


def _states(experiment: ExperimentRecord) -> str:
    order = list(TrialState)
    counted = sorted(
        ((TrialState(name), count) for name, count in experiment.states.items() if count),
        key=lambda state_count: order.index(state_count[0]),
    )
    return " ".join(
        f'<span style="margin-right:12px">{dot(STATE_COLOURS[state])}{text(label)}</span>'
        for state, label in ((state, f"{count} {state.value.lower()}") for state, count in counted)
    )

"""A trial as HTML: its state, parameters, outcome and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from windlass.comparison.diff_text import number
from windlass.display.html.elements import Budget, dot, fact, fragment, line, span, text
from windlass.display.html.sparkline import sparkline
from windlass.display.html.tables import Html, table
from windlass.display.table import STATE_COLOURS, Cell, Column, text_of
from windlass.display.trial_cells import (
    format_run_time,
    outcome_of,
    short_params,
    state_of,
)
from windlass.model.records import TrialRecord, own_metrics
from windlass.model.text.quantities import format_ago

_MOST_METRICS = 12
_LONGEST_PARAMS = 600
_METRIC_COLUMNS = (
    Column("METRIC"),
    Column("CURVE"),
    Column("LAST", is_number=True),
    Column("MIN", is_number=True),
    Column("MAX", is_number=True),
    Column("STEP", is_number=True),
)


class CurvePoints(NamedTuple):
    """The steps and values of one metric."""

    steps: Sequence[float]
    values: Sequence[float]


def trial_page(trial: TrialRecord, curves: Mapping[str, CurvePoints], now: float) -> str:
    """Return a trial as HTML. `curves` has the known curves of the trial's metrics."""
    head = line(
        dot(STATE_COLOURS[trial.state]) + span(f"Trial {trial.id}", "bold"),
        text(trial.name),
        span(" · ".join(_facts(trial, now)), "dim"),
    )
    details = "".join(fact(name, content) for name, content in _details(trial) if content)
    metrics = _metrics(trial, curves, Budget(head, details)) if trial.metrics else ""
    return fragment(head, details, metrics)


def _facts(trial: TrialRecord, now: float) -> list[str]:
    facts = [state_of(trial)]
    if (took := format_run_time(trial, now)) != "-":
        facts.append(took)
    facts.append(f"created {format_ago(trial.created, now)}")
    if trial.restarts:
        facts.append("1 restart" if trial.restarts == 1 else f"{trial.restarts} restarts")
    if trial.experiment and trial.experiment != trial.name:
        facts.append(f"experiment {trial.experiment}")
    return [*facts, *trial.labels]


def _details(trial: TrialRecord) -> list[tuple[str, str]]:
    outcome = outcome_of(trial)
    style = outcome.style if isinstance(outcome, Cell) else ""
    # Without an error, value or message, the outcome repeats the metrics, which follow anyway.
    has_more = trial.error or trial.result or trial.message
    is_shown = has_more and text_of(outcome) not in ("", "None")
    return [
        ("parameters", text(short_params(trial.params), _LONGEST_PARAMS)),
        ("outcome", span(text_of(outcome), style.replace("dim", "")) if is_shown else ""),
    ]


def _metrics(trial: TrialRecord, curves: Mapping[str, CurvePoints], budget: Budget) -> str:
    own = own_metrics(trial.metrics)
    rows = []
    for name, summary in list(own.items())[:_MOST_METRICS]:
        curve = curves.get(name)
        is_drawn = curve is not None and len(curve.values) > 1
        rows.append(
            [
                name,
                Html(sparkline(*curve)) if curve is not None and is_drawn else "",
                number(summary.last),
                number(summary.min),
                number(summary.max),
                "" if summary.step is None else str(summary.step),
            ]
        )
    left = len(own) - len(rows)
    more = f"{left} more metrics are not shown." if left else ""
    return table(_METRIC_COLUMNS, rows, budget, more=more, hides_empty=True)

"""The columns that `windlass ls` and other tables of trials can show, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from windlass.display.table import STATE_COLOURS, Cell, Column, Row
from windlass.display.trial_cells import (
    format_run_time,
    format_summary,
    outcome_of,
    short_params,
    short_value,
    state_of,
)
from windlass.model.text.display import clean
from windlass.model.text.quantities import format_ago

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord

DEFAULT = ("id", "name", "state", "params", "took", "created", "outcome")
_SORTS = ("id", "name", "state", "user", "created", "started", "ended", "duration")


class TrialColumn(NamedTuple):
    """A column with a function that formats a trial's cell as of a given time."""

    column: Column
    cell: Callable[[TrialRecord, float], str | Cell]


def _moment(moment: float | None, now: float) -> Cell:
    return Cell("-" if moment is None else format_ago(moment, now), "dim")


_COLUMNS = {
    "id": TrialColumn(Column("ID", is_number=True), lambda trial, _: str(trial.id)),
    "name": TrialColumn(Column("NAME", shrinks=True), lambda trial, _: clean(full_name(trial))),
    "state": TrialColumn(
        Column("STATE"),
        lambda trial, _: Cell(state_of(trial), STATE_COLOURS[trial.state], is_state=True),
    ),
    "params": TrialColumn(
        Column("PARAMETERS", shrinks=True), lambda trial, _: short_params(trial.params)
    ),
    "took": TrialColumn(Column("TOOK", is_number=True), format_run_time),
    "created": TrialColumn(
        Column("CREATED", is_number=True), lambda trial, now: _moment(trial.created, now)
    ),
    "started": TrialColumn(
        Column("STARTED", is_number=True), lambda trial, now: _moment(trial.started, now)
    ),
    "ended": TrialColumn(
        Column("ENDED", is_number=True), lambda trial, now: _moment(trial.ended, now)
    ),
    "outcome": TrialColumn(Column("OUTCOME", shrinks=True), lambda trial, _: outcome_of(trial)),
    "labels": TrialColumn(
        Column("LABELS", shrinks=True), lambda trial, _: clean(", ".join(trial.labels))
    ),
    "experiment": TrialColumn(
        Column("EXPERIMENT", shrinks=True), lambda trial, _: clean(trial.experiment)
    ),
    "project": TrialColumn(Column("PROJECT", shrinks=True), lambda trial, _: clean(trial.project)),
    "kind": TrialColumn(Column("KIND"), lambda trial, _: trial.kind.value),
    "user": TrialColumn(
        Column("USER", shrinks=True), lambda trial, _: clean(trial.provenance.user or "-")
    ),
    "host": TrialColumn(
        Column("HOST", shrinks=True),
        lambda trial, _: clean(trial.attempts[-1].node if trial.attempts else "-"),
    ),
}


def trial_columns(names: Sequence[str]) -> list[TrialColumn]:
    """Return the columns with these names, which are fields, `hparams.NAME` or metrics."""
    return [_COLUMNS.get(name) or _param_column(name) or _metric_column(name) for name in names]


def default_columns(records: Sequence[TrialRecord]) -> list[TrialColumn]:
    """Return the default columns for some trials.

    The column of labels is included only if a trial has labels.
    """
    return trial_columns(default_names(records))


def default_names(records: Sequence[TrialRecord]) -> list[str]:
    """Return the names of the default columns for some trials."""
    return [*DEFAULT, "labels"] if any(record.labels for record in records) else list(DEFAULT)


def column_names() -> list[str]:
    """Return the names of the columns that every trial has."""
    return list(_COLUMNS)


def trial_row(columns: Sequence[TrialColumn], trial: TrialRecord, now: float) -> Row:
    """Format a trial's cells."""
    return [column.cell(trial, now) for column in columns]


def sorted_metric(sort: str) -> tuple[str, str] | None:
    """Parse the metric and aspect in a sort order. By default, the aspect is the last value.

    >>> sorted_metric("-metrics.val/loss.min"), sorted_metric('metrics."a.b"')
    (('val/loss', 'min'), ('a.b', ''))
    >>> sorted_metric("loss"), sorted_metric("hparams.lr"), sorted_metric("-created")
    (('loss', ''), None, None)
    """
    text = sort.removeprefix("-")
    head, _, rest = text.partition(".")
    if not text or text in _SORTS or head in ("hparams", "params"):
        return None
    rest = rest if head == "metrics" else text
    name, _, aspect = rest.rpartition(".")
    if not name or aspect not in ("last", "min", "max", "mean", "count"):
        name, aspect = rest, ""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1].replace(name[0] * 2, name[0])
    return name, "" if aspect == "last" else aspect


def full_name(trial: TrialRecord) -> str:
    """Return a trial's name, prefixed with its experiment's name if they differ."""
    if trial.name == trial.experiment or not trial.experiment:
        return trial.name
    return f"{trial.experiment}/{trial.name}"


def _param_column(name: str) -> TrialColumn | None:
    head, _, path = name.partition(".")
    if head not in ("hparams", "params") or not path:
        return None

    def cell(trial: TrialRecord, _now: float) -> str:
        value: object = trial.params
        for part in [path] if path in trial.params else path.split("."):
            if not isinstance(value, dict) or part not in value:
                return "-"
            value = value[part]
        return clean(short_value(value))

    return TrialColumn(Column(clean(path).upper(), shrinks=True), cell)


def _metric_column(name: str) -> TrialColumn:
    metric, aspect = sorted_metric(name) or (name, "")

    def cell(trial: TrialRecord, _now: float) -> str:
        return format_summary(trial, metric, aspect)

    return TrialColumn(Column(clean(f"{metric} {aspect}").strip().upper(), is_number=True), cell)

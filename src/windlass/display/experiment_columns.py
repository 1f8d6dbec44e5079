"""The columns of tables of experiments, such as `windlass ls --experiments`."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.table import Cell, Column, Row
from windlass.model.records import ExperimentRecord, count_states
from windlass.model.text.display import clean
from windlass.model.text.quantities import format_ago

_COLUMNS = (
    Column("ID", is_number=True),
    Column("EXPERIMENT", shrinks=True),
    Column("TRIALS", is_number=True),
    Column("STATES", shrinks=True),
    Column("CREATED", is_number=True),
)


def experiment_table(
    records: Sequence[ExperimentRecord], now: float
) -> tuple[list[Column], list[Row]]:
    """Return a table's columns and rows. If any experiment has labels, add a column for labels."""
    columns, rows = list(_COLUMNS), [_row(record, now) for record in records]
    if any(record.labels for record in records):
        columns.append(Column("LABELS", shrinks=True))
        listed = [clean(", ".join(record.labels)) for record in records]
        rows = [[*row, labels] for row, labels in zip(rows, listed, strict=True)]
    return columns, rows


def states_text(record: ExperimentRecord) -> str:
    """Return an experiment's number of trials in each state, such as `3 succeeded, 1 failed`."""
    return count_states(record.states)


def _row(record: ExperimentRecord, now: float) -> Row:
    name = record.name if record.project == "default" else f"{record.project}/{record.name}"
    created = Cell(format_ago(record.created, now), "dim")
    return [str(record.id), clean(name), str(record.trials), states_text(record), created]

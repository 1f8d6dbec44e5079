"""The next items of a list as a table, for interactive sessions and notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.display.experiment_columns import experiment_table
from windlass.display.table import Column, Row, aligned, text_of
from windlass.display.trial_columns import default_columns, trial_row
from windlass.model.records import ExperimentRecord, TrialRecord
from windlass.model.text.display import clean, shorten

_WIDEST = 40  # of a cell of plain text
MORE = "There are more. list(...) fetches all of them."


def nothing(*, is_begun: bool) -> str:
    """Return the text that stands for a list without further items."""
    return "The list has no more items." if is_begun else "The list is empty."


def listing_text(items: Sequence[object], now: float, *, has_more: bool, is_begun: bool) -> str:
    """Return items of a list as a plain table."""
    if not items:
        return f"<{nothing(is_begun=is_begun)}>"
    columns, rows = listing_table(items, now)
    texts = [[shorten(text_of(cell), _WIDEST) for cell in row] for row in rows]
    lines = aligned(columns, texts)
    return "\n".join([*lines, *([MORE] if has_more else [])])


def listing_table(items: Sequence[object], now: float) -> tuple[Sequence[Column], Sequence[Row]]:
    """Return the columns and rows of a table of resources.

    Trials and experiments get the columns of `windlass ls`, and all other items their repr.
    """
    records = [getattr(item, "record", item) for item in items]
    trials = [record for record in records if isinstance(record, TrialRecord)]
    experiments = [record for record in records if isinstance(record, ExperimentRecord)]
    if len(trials) == len(items):
        columns = default_columns(trials)
        heads = [column.column for column in columns]
        return heads, [trial_row(columns, trial, now) for trial in trials]
    if len(experiments) == len(items):
        return experiment_table(experiments, now)
    return [Column(type(items[0]).__name__.upper(), shrinks=True)], [
        [clean(repr(item))] for item in items
    ]

"""The metrics of a trial as a table: what each came to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from windlass.model.records import TrialRecord


def print_metrics(record: TrialRecord) -> None:
    """Print the summary of each metric that a trial reported; nothing if it reported none."""
    from windlass.cli.tables import Column, print_table
    from windlass.cli.text import clean, paint

    if not record.metrics:
        return
    print()
    print(paint("Metrics", bold=True))
    heads = ("LAST", "MIN", "MAX", "STEP", "COUNT")
    columns = [Column("  NAME"), *(Column(head, is_number=True) for head in heads)]
    rows = [
        [
            f"  {clean(name)}",
            format_value(each.last),
            format_value(each.min),
            format_value(each.max),
            "" if each.step is None else str(each.step),
            str(each.count),
        ]
        for name, each in record.metrics.items()
    ]
    print_table(columns, rows)


def format_value(value: float | None) -> str:
    """A value as short as it can be read: whole numbers whole, others to six digits.

    >>> format_value(0.1 + 0.2), format_value(123456789.0), format_value(1e-9), format_value(None)
    ('0.3', '123456789', '1e-09', '')
    """
    if value is None:
        return ""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"

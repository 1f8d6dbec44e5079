"""The curves of metrics as HTML, one row per curve."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import Protocol

from windlass.comparison.diff_text import number
from windlass.display.html.elements import fragment, line, span
from windlass.display.html.sparkline import sparkline
from windlass.display.html.tables import Html, table_page
from windlass.display.table import Column
from windlass.model.metrics import CurveHead

MOST_POINTS = 300  # of one curve, as much as its image can show
_MOST_CURVES = 12
_COLUMNS = (
    Column("TRIAL", is_number=True),
    Column("METRIC"),
    Column("REPLICA"),
    Column("ATTEMPT", is_number=True),
    Column("CURVE"),
    Column("LAST", is_number=True),
    Column("MIN", is_number=True),
    Column("MAX", is_number=True),
    Column("STEPS", is_number=True),
)


class Curve(Protocol):
    """One metric's points from one replica and attempt."""

    @property
    def head(self) -> CurveHead: ...
    @property
    def steps(self) -> array[int]: ...
    @property
    def values(self) -> array[float]: ...


def curves_page(curves: Sequence[Curve]) -> str:
    """Return curves as a table with an image of each curve.

    A column is left out if its value is the same for all curves.
    """
    if not curves:
        return fragment(line(span("No points have been reported.", "dim")))
    shown = curves[:_MOST_CURVES]
    rows = [_row(curve) for curve in shown]
    keep = [
        position
        for position, column in enumerate(_COLUMNS)
        if column.head not in _SAME or len({row[position] for row in rows}) > 1
    ]
    left = len(curves) - len(shown)
    return table_page(
        [_COLUMNS[position] for position in keep],
        [[row[position] for position in keep] for row in rows],
        more=f"{left} more curves are not shown." if left else "",
    )


_SAME = ("TRIAL", "REPLICA", "ATTEMPT")


def _row(curve: Curve) -> list[str]:
    head = curve.head
    finite = [value for value in curve.values if math.isfinite(value)]
    return [
        str(head.trial_id),
        head.name,
        f"{head.role}-{head.index}",
        str(head.attempt),
        Html(sparkline(curve.steps, curve.values, width=220, height=36)),
        number(curve.values[-1] if curve.values else None),
        number(min(finite, default=None)),
        number(max(finite, default=None)),
        f"{curve.steps[0]} to {curve.steps[-1]}" if curve.steps else "",
    ]

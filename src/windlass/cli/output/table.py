"""Prints tables, which in a terminal are cut to the terminal's width."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from windlass.cli.output.text import is_terminal, paint
from windlass.display.table import GAP, aligned, natural_widths, padded, text_of
from windlass.display.table import Cell as Cell
from windlass.display.table import Column as Column
from windlass.display.table import Row as Row
from windlass.model.text.display import shorten

_NARROWEST = 8  # the minimum width of a column that can shrink


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print a table to stdout, cut to the terminal's width if stdout is a terminal."""
    terminal_width = _terminal_width()
    if terminal_width is None:
        for line in aligned(columns, rows):
            print(line)
        return
    widths = fit(columns, rows, terminal_width)
    shown = [i for i, width in enumerate(widths) if width > 0]
    heads = [Cell(column.head, "dim") for column in columns]
    for row in [heads, *rows]:
        parts = []
        for i in shown:
            text = shorten(text_of(row[i]), widths[i])
            is_last = i == shown[-1] and not columns[i].is_number
            parts.append(_paint(text if is_last else padded(text, widths[i], columns[i]), row[i]))
        print(GAP.join(parts))


def fits_terminal(columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    """Return whether the table fits the terminal without cutting columns of fixed width."""
    terminal_width = _terminal_width()
    if terminal_width is None:
        return True
    widths = fit(columns, rows, terminal_width)
    return all(widths) and _total(widths) <= terminal_width


def fit(columns: Sequence[Column], rows: Sequence[Row], terminal_width: int) -> list[int]:
    """Compute the widths of all columns.

    Columns that can shrink share the space that the fixed columns leave.

    If the columns still do not fit, those on the right get the width 0 and are not shown.

    >>> columns = [Column("ID"), Column("NAME", shrinks=True), Column("RESULT", shrinks=True)]
    >>> rows = [["1", "train", "a text of thirty-four characters.."]]
    >>> fit(columns, rows, 80), fit(columns, rows, 30), fit(columns, rows, 12)
    ([2, 5, 34], [2, 5, 19], [2, 5, 0])
    """
    widths = natural_widths(columns, rows)
    flexible = [i for i, column in enumerate(columns) if column.shrinks]
    least = {i: min(widths[i], _NARROWEST) for i in flexible}
    while _total(widths) > terminal_width:
        wide = [i for i in flexible if widths[i] > least[i]]
        if wide:
            widths[max(wide, key=widths.__getitem__)] -= 1
        elif flexible:
            widths[flexible.pop()] = 0
        else:
            break
    return widths


def _terminal_width() -> int | None:
    """Return the maximum width of a table on stdout, or None if the width is unlimited."""
    if not is_terminal(sys.stdout):
        return None
    import shutil

    return shutil.get_terminal_size().columns


def _total(widths: Sequence[int]) -> int:
    shown = [width for width in widths if width > 0]
    return sum(shown) + len(GAP) * (len(shown) - 1)


def _paint(text: str, cell: str | Cell) -> str:
    style = cell.style if isinstance(cell, Cell) else ""
    if style in ("", "dim", "bold"):
        return paint(text, dim=style == "dim", bold=style == "bold")
    return paint(text, style)

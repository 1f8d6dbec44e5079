"""Prints tables, which in a terminal are cut to the terminal's width."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from windlass.cli.output.text import is_terminal, paint
from windlass.model.text.display import shorten, width_of

_GAP = "  "
_NARROWEST = 8  # the minimum width of a column that can shrink


class Column(NamedTuple):
    """A table column. If `shrinks` is true, it gets narrower to fit the terminal."""

    head: str
    is_number: bool = False
    shrinks: bool = False


class Cell(NamedTuple):
    """Text in a table cell, with a style: a colour, `dim` or `bold`."""

    text: str
    style: str = ""


Row = Sequence[str | Cell]


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print a table to stdout, cut to the terminal's width if stdout is a terminal."""
    terminal_width = _terminal_width()
    if terminal_width is None:
        for line in align(columns, rows):
            print(line)
        return
    widths = fit(columns, rows, terminal_width)
    shown = [i for i, width in enumerate(widths) if width > 0]
    heads = [Cell(column.head, "dim") for column in columns]
    for row in [heads, *rows]:
        parts = []
        for i in shown:
            text = shorten(_text(row[i]), widths[i])
            is_last = i == shown[-1] and not columns[i].is_number
            padded = text if is_last else _pad(text, widths[i], columns[i])
            parts.append(_paint(padded, row[i]))
        print(_GAP.join(parts))


def fits_terminal(columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    """Return whether the table fits the terminal without cutting columns of fixed width."""
    terminal_width = _terminal_width()
    if terminal_width is None:
        return True
    widths = fit(columns, rows, terminal_width)
    return all(widths) and _total(widths) <= terminal_width


def align(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return a table's lines as plain text, without cutting anything.

    >>> align([Column("ID", is_number=True), Column("NAME")], [["9", "train"], ["10", "test"]])
    ['ID  NAME', ' 9  train', '10  test']
    """
    texts = [[column.head for column in columns], *([_text(cell) for cell in row] for row in rows)]
    widths = _natural_widths(columns, rows)
    return [_GAP.join(map(_pad, row, widths, columns)).rstrip() for row in texts]


def fit(columns: Sequence[Column], rows: Sequence[Row], terminal_width: int) -> list[int]:
    """Compute the widths of all columns.

    Columns that can shrink share the space that the fixed columns leave.

    If the columns still do not fit, those on the right get the width 0 and are not shown.

    >>> columns = [Column("ID"), Column("NAME", shrinks=True), Column("RESULT", shrinks=True)]
    >>> rows = [["1", "train", "a text of thirty-four characters.."]]
    >>> fit(columns, rows, 80), fit(columns, rows, 30), fit(columns, rows, 12)
    ([2, 5, 34], [2, 5, 19], [2, 5, 0])
    """
    widths = _natural_widths(columns, rows)
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
    return sum(shown) + len(_GAP) * (len(shown) - 1)


def _natural_widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    return [
        max([width_of(column.head), *(width_of(_text(row[i])) for row in rows)])
        for i, column in enumerate(columns)
    ]


def _pad(text: str, width: int, column: Column) -> str:
    space = " " * (width - width_of(text))
    return space + text if column.is_number else text + space


def _paint(text: str, cell: str | Cell) -> str:
    style = cell.style if isinstance(cell, Cell) else ""
    if style in ("", "dim", "bold"):
        return paint(text, dim=style == "dim", bold=style == "bold")
    return paint(text, style)


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell

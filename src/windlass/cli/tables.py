"""Tables: drawn to fit in a terminal, plain aligned columns anywhere else."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from windlass.cli.text import is_coloured, is_terminal


class Column(NamedTuple):
    """A column: its head, and what gives way when a terminal is narrow."""

    head: str
    is_number: bool = False
    shrinks: bool = False


class Cell(NamedTuple):
    """A text with a style: a colour, `dim`, `bold`."""

    text: str
    style: str = ""


Row = Sequence[str | Cell]


def print_table(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    """Print a table on stdout."""
    if is_terminal(sys.stdout):
        _draw(columns, rows)
    else:
        for line in align(columns, rows):
            print(line)


def align(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """The lines of a table as plain text, nothing cut off.

    >>> align([Column("ID", is_number=True), Column("NAME")], [["9", "train"], ["10", "test"]])
    ['ID  NAME', ' 9  train', '10  test']
    """
    texts = [[column.head for column in columns]]
    texts += [[_text(cell) for cell in row] for row in rows]
    widths = [max(_width(row[i]) for row in texts) for i in range(len(columns))]
    return ["  ".join(map(_pad, row, widths, columns)).rstrip() for row in texts]


def _pad(text: str, width: int, column: Column) -> str:
    space = " " * (width - _width(text))
    return space + text if column.is_number else text + space


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _width(text: str) -> int:
    """How many places a text takes on a screen."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _draw(columns: Sequence[Column], rows: Sequence[Row]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column.head,
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            # What must not shrink is as wide as it is: the others share what is left.
            min_width=None if column.shrinks else 1,
        )
    for position, column in enumerate(columns):
        if not column.shrinks:
            widest = max([len(column.head), *(_width(_text(row[position])) for row in rows)])
            table.columns[position].min_width = widest
    for row in rows:
        table.add_row(*[
            Text(_text(cell), style=cell.style if isinstance(cell, Cell) else "") for cell in row
        ])  # fmt: skip
    # Rich decides about colours once more, and knows less of the reasons than we do.
    Console(no_color=not is_coloured(sys.stdout), highlight=False).print(table)

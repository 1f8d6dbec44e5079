"""The columns and cells of tables, before a terminal or a notebook lays them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from windlass.model.records import TrialState
from windlass.model.text.display import width_of

GAP = "  "  # between two columns of text

STATE_COLOURS = {
    TrialState.QUEUED: "yellow",
    TrialState.STARTING: "cyan",
    TrialState.RUNNING: "cyan",
    TrialState.RESTARTING: "yellow",
    TrialState.SUSPENDED: "yellow",
    TrialState.STOPPING: "yellow",
    TrialState.SUCCEEDED: "green",
    TrialState.FAILED: "red",
    TrialState.STOPPED: "magenta",
}


class Column(NamedTuple):
    """A table column. If `shrinks` is true, it gets narrower to fit the terminal."""

    head: str
    is_number: bool = False
    shrinks: bool = False


class Cell(NamedTuple):
    """Text in a table cell, with a style: a colour, `dim` or `bold`."""

    text: str
    style: str = ""
    is_state: bool = False  # a notebook marks a state with a coloured dot


Row = Sequence[str | Cell]


def text_of(cell: str | Cell) -> str:
    """Return a cell's text without its style."""
    return cell.text if isinstance(cell, Cell) else cell


def aligned(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    """Return a table's lines as plain text, without cutting anything.

    >>> aligned([Column("ID", is_number=True), Column("NAME")], [["9", "train"], ["10", "test"]])
    ['ID  NAME', ' 9  train', '10  test']
    """
    texts = [[column.head for column in columns], *(list(map(text_of, row)) for row in rows)]
    widths = natural_widths(columns, rows)
    return [GAP.join(map(padded, row, widths, columns)).rstrip() for row in texts]


def natural_widths(columns: Sequence[Column], rows: Sequence[Row]) -> list[int]:
    """Return the width that each column needs to show all of its text."""
    return [
        max([width_of(column.head), *(width_of(text_of(row[i])) for row in rows)])
        for i, column in enumerate(columns)
    ]


def padded(text: str, width: int, column: Column) -> str:
    """Pad text to a width: on the left in a column of numbers, else on the right."""
    space = " " * (width - width_of(text))
    return space + text if column.is_number else text + space

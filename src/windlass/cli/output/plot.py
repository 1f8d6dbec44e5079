"""Draws curves in a terminal, with Braille characters or ASCII."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby

Curve = Sequence[tuple[float, float]]  # (step, value) points, ordered by step

_BRAILLE = 0x2800
# The bit of each dot in a Braille character, by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
_LEAST_BETWEEN = 16  # the minimum number of columns between a curve's letters


def draw(
    curves: Sequence[Curve],
    width: int,
    height: int,
    *,
    plain: bool = False,
    log: bool = False,
    marks: str = "",
    paint: Callable[[str, int], str] = lambda text, _curve: text,
    format_step: Callable[[float], str] = "{:g}".format,
) -> list[str]:
    r"""Draw curves as lines of text, with values at the left and steps below.

    With `log`, the value axis is logarithmic, and only positive values are drawn.

    `marks` has one letter per curve. A curve's letter appears on it at intervals, so that curves
    can be told apart without colours. `paint(text, number)` colours text for the curve with this
    number.

    >>> print("\n".join(draw([[(0, 0.0), (10, 1.0)]], 14, 3, plain=True)))
      1 |      ***
    0.5 |   ***
      0 |***
         0      10
    >>> print("\n".join(draw([[(0, 1.0), (5, 10.0), (10, 100.0)]], 14, 3, plain=True, log=True)))
    100 |       **
     10 |   ****
      1 |***
         0      10
    """
    drawn = [[point for point in curve if can_draw(point[1], log=log)] for curve in curves]
    every = [point for curve in drawn for point in curve]
    if not every:
        return []
    first, last = min(step for step, _ in every), max(step for step, _ in every)
    low, high = min(value for _, value in every), max(value for _, value in every)
    labels = [_short(value) for value in _marks_between(low, high, height, log=log)]
    if log:
        drawn = [[(step, math.log(value)) for step, value in curve] for curve in drawn]
        low, high = math.log(low), math.log(high)
    margin = max(map(len, labels))
    canvas = _Canvas(max(width - margin - 2, 8), height, plain=plain, marks=marks)
    for curve in drawn:
        canvas.line(
            [(_share(step, first, last), _share(value, low, high)) for step, value in curve]
        )
    canvas.mark()
    lines = [
        f"{label.rjust(margin)} {'|' if plain else '┤'}{text}".rstrip()
        for label, text in zip(labels, canvas.rows(paint), strict=True)
    ]
    ends = format_step(first), format_step(last)
    between = " " * max(canvas.width - len(ends[0]) - len(ends[1]), 1)
    below = ends[0] if first == last else between.join(ends)
    return [*lines, " " * (margin + 2) + below]


def describe_left_out(values: Sequence[float], *, log: bool) -> list[str]:
    """Return lines that count the values without a position on the value axis.

    >>> describe_left_out([1, 0, float("nan")], log=True)[1]
    'Not drawn on a logarithmic axis, because they are zero or negative: 1'
    """
    odd = sum(not can_draw(value) for value in values)
    low = sum(not can_draw(value, log=log) for value in values) - odd
    lines = [f"Not drawn, because they are NaN or infinite: {odd} of the points"] if odd else []
    if low:
        lines.append(f"Not drawn on a logarithmic axis, because they are zero or negative: {low}")
    return lines


def can_draw(value: float, *, log: bool = False) -> bool:
    """Return whether a value has a position on the value axis."""
    return math.isfinite(value) and (value > 0 or not log)


def _marks_between(low: float, high: float, number: int, *, log: bool) -> list[float]:
    """Return evenly spaced positions on the value axis, from `high` to `low`."""
    shares = [row / (number - 1) for row in range(number)]
    if log:  # powers of each end, because their ratio may overflow
        return [high ** (1 - share) * low**share for share in shares]
    return [high - (high - low) * share for share in shares]


class _Canvas:
    """A drawing area of character cells, each with one or more dots.

    Each cell has the colour of the curve that was last drawn in that cell.
    """

    def __init__(self, width: int, height: int, *, plain: bool, marks: str) -> None:
        self.width = width
        self._plain = plain
        self._marks = marks
        self._curves: list[list[tuple[int, int]]] = []  # the cells of each curve as (row, column)
        self._owners: dict[tuple[int, int], int] = {}
        self._marked: dict[tuple[int, int], str] = {}
        self._across, self._down = (1, 1) if plain else (2, 4)
        self._cells = [[0] * width for _ in range(height)]
        self._columns, self._lines = width * self._across, height * self._down

    def line(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw a line through points. Coordinates are from 0 to 1, and y increases upwards."""
        self._curves.append([])
        corners = [
            (round(x * (self._columns - 1)), round((1 - y) * (self._lines - 1))) for x, y in points
        ]
        for (x, y), (to_x, to_y) in zip(corners, [*corners[1:], *corners[-1:]], strict=True):
            length = max(abs(to_x - x), abs(to_y - y), 1)
            for n in range(length + 1):
                self._dot(x + round((to_x - x) * n / length), y + round((to_y - y) * n / length))

    def mark(self) -> None:
        """Put each curve's letter at the curve's right end and at regular intervals to the left."""
        if not self._marks:
            return
        between = max(_LEAST_BETWEEN, 4 * len(self._curves))
        for number, cells in enumerate(self._curves):
            own_column = number * between // len(self._curves)
            seen: set[int] = set()
            for row, column in reversed(cells):
                is_due = not seen or column % between == own_column
                if is_due and column not in seen and (row, column) not in self._marked:
                    self._marked[row, column] = self._marks[number]
                    self._owners[row, column] = number
                    seen.add(column)

    def rows(self, paint: Callable[[str, int], str]) -> list[str]:
        return [self._row(row, paint) for row in range(len(self._cells))]

    def _row(self, row: int, paint: Callable[[str, int], str]) -> str:
        parts = []
        owners = [self._owners.get((row, column), -1) for column in range(self.width)]
        for owner, columns in groupby(range(self.width), owners.__getitem__):
            text = "".join(self._character(row, column) for column in columns)
            parts.append(text if owner < 0 else paint(text, owner))
        return "".join(parts)

    def _character(self, row: int, column: int) -> str:
        cell = self._cells[row][column]
        if not cell:
            return " "
        if self._plain:
            return self._marks[self._owners[row, column]] if self._marks else "*"
        return self._marked.get((row, column)) or chr(_BRAILLE + cell)

    def _dot(self, x: int, y: int) -> None:
        bit = _DOTS[y % self._down][x % self._across]
        cell = y // self._down, x // self._across
        self._cells[cell[0]][cell[1]] |= bit
        self._owners[cell] = len(self._curves) - 1
        self._curves[-1].append(cell)


def _share(value: float, low: float, high: float) -> float:
    """Return a value's relative position between two bounds, from 0 to 1.

    If the bounds are equal, return 0.5.
    """
    if high <= low:
        return 0.5
    span = high / 2 - low / 2  # divide first, because the difference may overflow
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0)


def _short(value: float) -> str:
    return f"{value:.4g}"

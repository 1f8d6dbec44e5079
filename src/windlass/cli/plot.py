"""Curves drawn in a terminal: eight dots a character where there is Braille, else stars."""

from __future__ import annotations

import math
from collections.abc import Sequence

Curve = Sequence[tuple[float, float]]  # steps and values, in order

_BRAILLE = 0x2800
# The bit of each dot of a character, by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def draw(curves: Sequence[Curve], width: int, height: int, *, plain: bool = False) -> list[str]:
    r"""Curves as lines of text, with their values at the left and their steps below.

    >>> print("\n".join(draw([[(0, 0.0), (10, 1.0)]], 14, 3, plain=True)))
      1 |      ***
    0.5 |   ***
      0 |***
         0      10
    """
    finite = [[each for each in curve if math.isfinite(each[1])] for curve in curves]
    every = [point for curve in finite for point in curve]
    if not every:
        return []
    first, last = min(step for step, _ in every), max(step for step, _ in every)
    low, high = min(value for _, value in every), max(value for _, value in every)
    labels = [_short(high - (high - low) * row / (height - 1)) for row in range(height)]
    margin = max(map(len, labels))
    canvas = _Canvas(max(width - margin - 2, 8), height, plain=plain)
    for curve in finite:
        canvas.line(
            [(_share(step, first, last), _share(value, low, high)) for step, value in curve]
        )
    lines = [
        f"{label.rjust(margin)} {'|' if plain else '┤'}{text}".rstrip()
        for label, text in zip(labels, canvas.rows(), strict=True)
    ]
    ends = f"{first:g}", f"{last:g}"
    between = " " * max(canvas.width - len(ends[0]) - len(ends[1]), 1)
    below = ends[0] if first == last else between.join(ends)
    return [*lines, " " * (margin + 2) + below]


class _Canvas:
    """Dots in rows of characters."""

    def __init__(self, width: int, height: int, *, plain: bool) -> None:
        self.width = width
        self._plain = plain
        self._across, self._down = (1, 1) if plain else (2, 4)
        self._cells = [[0] * width for _ in range(height)]
        self._columns, self._lines = width * self._across, height * self._down

    def line(self, points: Sequence[tuple[float, float]]) -> None:
        """Join points, whose coordinates are shares of the width and, upwards, of the height."""
        places = [
            (round(x * (self._columns - 1)), round((1 - y) * (self._lines - 1))) for x, y in points
        ]
        for (x, y), (to_x, to_y) in zip(places, [*places[1:], places[-1]], strict=True):
            length = max(abs(to_x - x), abs(to_y - y), 1)
            for n in range(length + 1):
                self._dot(x + round((to_x - x) * n / length), y + round((to_y - y) * n / length))

    def rows(self) -> list[str]:
        if self._plain:
            return ["".join(" *"[bool(cell)] for cell in row) for row in self._cells]
        return [
            "".join(chr(_BRAILLE + cell) if cell else " " for cell in row) for row in self._cells
        ]

    def _dot(self, x: int, y: int) -> None:
        bit = _DOTS[y % self._down][x % self._across]
        self._cells[y // self._down][x // self._across] |= bit


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two; in the middle if they are the same."""
    if high <= low:
        return 0.5
    span = high / 2 - low / 2  # halves, since the whole may be more than a float holds
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0)


def _short(value: float) -> str:
    return f"{value:.4g}"

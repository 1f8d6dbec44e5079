"""Columns of metric points, which hold steps, times and values in compact arrays."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple


class Column(NamedTuple):
    """A metric's points, in the order in which they were reported."""

    steps: array[int]
    times: array[float]
    values: array[float]

    def extend(self, other: Column) -> None:
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def add(self, step: int, time: float, value: float) -> None:
        self.steps.append(step)
        self.times.append(time)
        self.values.append(value)

    def part(self, start: int, stop: int) -> Column:
        return Column(self.steps[start:stop], self.times[start:stop], self.values[start:stop])

    def below(self, step: int) -> Column:
        """Return the points whose step is lower than `step`.

        >>> make_column([(0, 1.0, 0.5), (7, 2.0, 0.25), (1, 3.0, 0.125)]).below(5).steps.tolist()
        [0, 1]
        """
        if not self.steps or max(self.steps) < step:
            return self
        if min(self.steps) >= step:
            return make_column()
        return make_column(row for row in zip(*self, strict=True) if row[0] < step)


def make_column(rows: Iterable[tuple[int, float, float]] = ()) -> Column:
    """Create a column from rows, each of which is a step, a time and a value."""
    column = Column(array("q"), array("d"), array("d"))
    for row in rows:
        column.add(*row)
    return column

"""Downsamples a curve, keeping the lowest and the highest point of each part of it.

`tsdownsample` does the same with NumPy, but loading NumPy would take more time and memory than this
module, which needs only arrays and slices.
"""

from __future__ import annotations

from array import array

from windlass.server.stores.metrics.columns import Column, make_column

OUTLINED = 256  # points of a curve per two or three points of its outline


def outline(column: Column) -> Column:
    """Return the first and last point of a column, and the extremes of every `OUTLINED` points.

    The extremes are the lowest value, the highest value and the first NaN.
    """
    count = len(column.values)
    ends = {0, count - 1} if count else set()
    return _picked(column, sorted({*ends, *_extremes(column, OUTLINED)}))


def downsample(column: Column, most: int) -> Column:
    """Return at most `most` points: the first, the last, and extremes between them.

    >>> points = make_column((n, 0.0, 9.0 if n == 777 else 0.0) for n in range(10_000))
    >>> few = downsample(points, 50)
    >>> len(few.values) <= 50, 777 in few.steps, few.steps[0], few.steps[-1]
    (True, True, 0, 9999)

    If there are too few extremes, as in a curve that only falls, evenly spaced points are added.

    >>> list(downsample(make_column((n, 0.0, -float(n)) for n in range(100)), 5).steps)
    [0, 25, 50, 75, 99]
    >>> [list(downsample(points, most).steps) for most in (1, 2, 3)]
    [[9999], [0, 9999], [0, 777, 9999]]
    """
    count = len(column.values)
    if count <= most:
        return column
    if most < 5:
        return _picked(column, _very_few(column, most))
    points_per_group = 3 if any(map(_is_nan, column.values)) else 2
    groups = (most - 2) // points_per_group
    length = -(-count // groups)
    picked = {0, count - 1, *_extremes(column, length)}
    spare = most - len(picked) + 1
    picked |= {number * count // spare for number in range(1, spare)}
    if missing := most - len(picked):  # the extremes of different parts may be the same points
        others = [number for number in range(count) if number not in picked]
        step = len(others) / missing
        picked |= {others[int((number + 0.5) * step)] for number in range(missing)}
    return _picked(column, sorted(picked))


def _very_few(column: Column, most: int) -> list[int]:
    """Return the indices of `most` points, if `most` is less than 5.

    The points are the two ends, then extremes, then points from the middle.
    """
    values, last = column.values, len(column.values) - 1
    if most < 3:
        return [0, last] if most > 1 else [last]
    spikes = [row for row in _extremes(column, last + 1) if 0 < row < last]
    spikes.sort(key=lambda n: abs(values[n] - values[0]), reverse=True)
    between = dict.fromkeys([*spikes, (last + 1) // 2, (last + 1) // 3])
    return sorted([0, last, *list(between)[: most - 2]])


def _extremes(column: Column, length: int) -> list[int]:
    """Split a column into parts of `length` points.

    Return the indices of each part's lowest value, highest value and first NaN.
    """
    values = column.values
    indices: list[int] = []
    for start in range(0, len(values), length):
        part = values[start : start + length]
        numbers, here = part, set()
        if (total := sum(part)) != total and any(map(_is_nan, part)):
            # Comparisons with NaN are always false, so a NaN would hide the other values.
            here.add(start + next(n for n, v in enumerate(part) if _is_nan(v)))
            numbers = array("d", [v for v in part if not _is_nan(v)])
        if numbers:
            here.add(start + part.index(min(numbers)))
            here.add(start + part.index(max(numbers)))
        indices += sorted(here)
    return indices


def _is_nan(value: float) -> bool:
    return value != value


def _picked(column: Column, rows: list[int]) -> Column:
    steps, times, values = column
    return make_column((steps[n], times[n], values[n]) for n in rows)

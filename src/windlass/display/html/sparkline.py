"""Small curves as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from windlass.display.html.elements import ACCENT

_MARGIN = 2.0  # pixels around the curve, so that its line is not cut


def sparkline(
    steps: Sequence[float], values: Sequence[float], *, width: int = 120, height: int = 20
) -> str:
    """Draw a curve as an SVG image, with a dot at its last value.

    Values that are not finite leave gaps. A curve without finite values yields "".

    >>> sparkline([0, 1], [1.0, math.nan]).count("<circle")
    1
    >>> sparkline([0], [math.inf])
    ''
    """
    points = [(float(step), value) for step, value in zip(steps, values, strict=True)]
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return ""
    across = _scale([step for step, _ in points], _MARGIN, width - _MARGIN)
    up = _scale([value for _, value in finite], height - _MARGIN, _MARGIN)
    runs = [[(across(x), up(y)) for x, y in run] for run in _runs(points)]
    path = "".join(_path(_thin(run)) for run in runs)
    x, y = runs[-1][-1]
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f'<path d="{path}" fill="none" stroke="{ACCENT}" stroke-width="1.4" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.9" fill="{ACCENT}"/></svg>'
    )


def _scale(values: Sequence[float], first: float, last: float) -> Callable[[float], float]:
    """Return a function that maps values linearly to pixels.

    If all values are equal, they are in the middle.
    """
    low, high = min(values), max(values)
    half = high / 2 - low / 2  # halves, because the difference may overflow

    def pixel(value: float) -> float:
        share = (value / 2 - low / 2) / half if half > 0 else 0.5
        return first + (last - first) * share

    return pixel


def _runs(points: Sequence[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield the longest parts of a curve that contain only finite values."""
    run: list[tuple[float, float]] = []
    for point in points:
        if math.isfinite(point[1]):
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _thin(run: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Keep at most three points for every two pixels: the highest, the lowest and the last."""
    by_column: dict[int, list[tuple[float, float]]] = {}
    for point in run:
        by_column.setdefault(int(point[0] / 2), []).append(point)
    thinned = []
    for points in by_column.values():
        kept = {min(points, key=_height), max(points, key=_height), points[-1]}
        thinned += [point for point in dict.fromkeys(points) if point in kept]
    return thinned


def _height(point: tuple[float, float]) -> float:
    return point[1]


def _path(points: Sequence[tuple[float, float]]) -> str:
    """Return the SVG path through points.

    >>> _path([(1.0, 2.0), (3.5, 4.0)])
    'M1 2L3.5 4'
    """
    return "M" + "L".join(f"{_pixel(x)} {_pixel(y)}" for x, y in points)


def _pixel(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")

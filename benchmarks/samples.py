"""Samples taken in turn, so that compared values come from the same seconds on the same machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable


class Samples(list[float]):
    """Repeated measurements, in seconds.

    >>> times = Samples([3.0, 1.0, 2.0, 10.0, 4.0])
    >>> times.median, times.quantile(0.95), times.quartiles
    (3.0, 10.0, (2.0, 4.0))
    """

    @property
    def median(self) -> float:
        return statistics.median(self)

    @property
    def quartiles(self) -> tuple[float, float]:
        return self.quantile(0.25), self.quantile(0.75)

    def quantile(self, share: float) -> float:
        """Return a quantile of the samples."""
        ordered = sorted(self)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def alternate(
    rounds: int, *, warm_up: bool = True, **timed: Callable[[], float]
) -> dict[str, Samples]:
    """Measure several things in turn, after one round that does not count.

    >>> alternate(3, ours=lambda: 2.0, bare=lambda: 1.0)
    {'ours': [2.0, 2.0, 2.0], 'bare': [1.0, 1.0, 1.0]}
    """
    taken = {name: Samples() for name in timed}
    for turn in range(0 if warm_up else 1, rounds + 1):
        for name, measure in timed.items():
            seconds = measure()
            if turn > 0:
                taken[name].append(seconds)
    return taken

"""A histogram of the durations of reconciliations."""

from __future__ import annotations

import math
import threading
from collections import Counter

_SHORTEST = 1e-6
_STEP = 1.05  # ratio of adjacent bucket limits, which bounds the relative error


class LatencyHistogram:
    """A histogram of durations. Thread-safe.

    Adjacent bucket limits differ by 5 %, so that the histogram stays small and precise.

    >>> timing = LatencyHistogram()
    >>> for milliseconds in range(1, 101):
    ...     timing.add(milliseconds / 1000)
    >>> timing.count, round(timing.quantile(0.5), 2), round(timing.quantile(0.99), 1)
    (100, 0.05, 0.1)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._classes: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0  # total seconds

    def add(self, seconds: float) -> None:
        """Add the duration of a reconciliation, in seconds, to the histogram."""
        number = math.ceil(math.log(max(seconds, _SHORTEST) / _SHORTEST, _STEP))
        with self._lock:
            self._classes[number] += 1
            self.count += 1
            self.total += seconds

    def quantile(self, share: float) -> float:
        """Return a quantile of the durations in seconds. `quantile(0.5)` is the median.

        Returns 0 if there are no durations.
        """
        with self._lock:
            left = share * self.count
            for number in sorted(self._classes):
                left -= self._classes[number]
                if left <= 0:
                    return float(_SHORTEST * _STEP ** (number - 0.5))
        return 0.0

"""How long looks take: a histogram that stays small however many there are."""

from __future__ import annotations

import math
import threading
from collections import Counter

_SHORTEST = 1e-6
_STEP = 1.05  # each class reaches so much further than the one before: figures are as exact


class Timing:
    """Durations, counted by class; safe to use from any thread.

    >>> timing = Timing()
    >>> for milliseconds in range(1, 101):
    ...     timing.add(milliseconds / 1000)
    >>> timing.count, round(timing.quantile(0.5), 2), round(timing.quantile(0.99), 1)
    (100, 0.05, 0.1)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._classes: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0  # seconds, of all of them

    def add(self, seconds: float) -> None:
        """Count one that took so long."""
        number = math.ceil(math.log(max(seconds, _SHORTEST) / _SHORTEST, _STEP))
        with self._lock:
            self._classes[number] += 1
            self.count += 1
            self.total += seconds

    def quantile(self, share: float) -> float:
        """What that share of them took at most; 0 while there are none."""
        with self._lock:
            left = share * self.count
            for number in sorted(self._classes):
                left -= self._classes[number]
                if left <= 0:
                    return float(_SHORTEST * _STEP ** (number - 0.5))
        return 0.0

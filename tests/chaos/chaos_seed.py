"""Reproducible random choices, and the amount of them."""

from __future__ import annotations

import dataclasses
import random
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Chaos:
    """The source of all random choices of one test."""

    seed: int
    random: random.Random
    long: bool

    def pick(self, short: T, long: T) -> T:
        """Return the small value in short runs, the large value in long runs."""
        return long if self.long else short

    def examples(self, short: int, long: int) -> int:
        """The number of examples of a property: `short` of them in `make test-all`.

        `make test` scales this number by its hypothesis profile, to at least 5.
        """
        return long if self.long else max(5, short * settings().max_examples // 100)

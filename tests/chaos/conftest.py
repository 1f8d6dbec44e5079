"""Tests that kill and break things: short in `make test`, long in `make chaos`."""

from __future__ import annotations

import os
import random

import pytest
from chance import Chaos


@pytest.fixture
def chaos() -> Chaos:
    """A seed that is printed with every failure; WINDLASS_CHAOS_SEED brings it back."""
    seed = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"WINDLASS_CHAOS_SEED={seed}")
    return Chaos(seed, random.Random(seed), long=os.environ.get("WINDLASS_CHAOS") == "long")

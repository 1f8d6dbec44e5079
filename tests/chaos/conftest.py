"""Tests that kill and break things: short in `make test-all`, long in `make chaos`."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos_seed import Chaos
from home_processes import TAG, HomeWorld


@pytest.fixture
def chaos() -> Chaos:
    """A seed that is printed with every failure. Set WINDLASS_CHAOS_SEED to repeat it."""
    seed = int(os.environ.get("WINDLASS_CHAOS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"WINDLASS_CHAOS_SEED={seed}")
    return Chaos(seed, random.Random(seed), long=os.environ.get("WINDLASS_CHAOS") == "long")


@pytest.fixture
def world(fresh_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HomeWorld]:
    """A home for one test, which leaves no process behind."""
    monkeypatch.setenv(TAG, str(fresh_home))
    world = HomeWorld(fresh_home)
    yield world
    world.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder in which trials write their marks."""
    (tmp_path / "marks").mkdir()
    return tmp_path / "marks"

"""Mutual exclusion of commands that build, start or stop the cluster, or build its images."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from on_kubernetes.cluster.locations import LOCK


@contextmanager
def locked(lock: Path = LOCK) -> Iterator[None]:
    """Hold the lock. Wait for another holder, and print a notice."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Waiting for another that holds {lock} ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""One at a time: whoever builds, starts or stops the cluster."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from kube.cluster.places import LOCK


@contextmanager
def locked() -> Iterator[None]:
    """Hold the lock; wait for whoever holds it, saying so."""
    LOCK.parent.mkdir(parents=True, exist_ok=True)
    with LOCK.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Waiting for another that builds, starts or stops the cluster ...", flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

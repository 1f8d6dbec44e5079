"""Finds trials that wait for each other and for capacity, so that none of them can ever continue.

A trial may submit another trial and wait for it. It keeps its own capacity meanwhile. If the other
trial fits only into this capacity, both wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from windlass.engine.admission import Allocation, WaitingJob, admit
from windlass.model.hardware.resources import Capacity

_MOST_PASSES = 50  # a longer queue is assumed to move


class Deadlock(NamedTuple):
    """The running jobs that can never continue, and the queued jobs that can never start."""

    stuck: frozenset[str] = frozenset()
    blocked: frozenset[str] = frozenset()


def find_deadlock(
    waits: Mapping[str, Collection[str]],
    running: Sequence[Allocation],
    queue: Sequence[WaitingJob],
    capacity: Capacity,
) -> Deadlock:
    """Return the jobs that can never continue, and the queued jobs for which they wait.

    `waits` has the keys of the jobs that each job waits for. A job can continue if each of its jobs
    runs and can continue itself, or will start in the capacity that the stuck jobs leave. All
    other running jobs end some time.

    >>> from windlass.engine.admission import Demand
    >>> one = Demand(1000)
    >>> held = [Allocation(key=key, demand=one, order=(0, 0.0, (), key)) for key in "ab"]
    >>> queue = [WaitingJob(key=key, demand=one) for key in "xy"]
    >>> machine = Capacity(cpus=2, memory=0)
    >>> find_deadlock({"a": ["x"]}, held, queue, machine).stuck
    frozenset()
    >>> deadlock = find_deadlock({"a": ["x"], "b": ["y"]}, held, queue, machine)
    >>> sorted(deadlock.stuck), sorted(deadlock.blocked)
    (['a', 'b'], ['x', 'y'])
    """
    stuck = frozenset(one.key for one in running) & waits.keys()
    while stuck:
        blocked = _never_started(queue, [one for one in running if one.key in stuck], capacity)
        able = {key for key in stuck if not any(of in stuck | blocked for of in waits[key])}
        if not able:
            return Deadlock(frozenset(stuck), blocked)
        stuck -= able
    return Deadlock()


def _never_started(
    queue: Sequence[WaitingJob], running: Sequence[Allocation], capacity: Capacity
) -> frozenset[str]:
    """Return the queued jobs that never start while `running` keep their capacity.

    Each job that starts ends before the next pass.
    """
    left = list(queue)
    for _ in range(_MOST_PASSES):
        admitted = {one.key for one in admit(left, running, capacity).admitted}
        if not admitted:
            return frozenset(job.key for job in left)
        left = [job for job in left if job.key not in admitted]
    return frozenset()

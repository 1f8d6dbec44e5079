"""Finds deadlocks, in which trials wait for each other or for capacity and can never continue.

A trial that submits a second trial and waits for it keeps its own capacity meanwhile. If the second
trial fits only into this capacity, both trials wait forever.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from windlass.engine.admission import Allocation, WaitingJob, admit
from windlass.model.hardware.resources import Capacity

_MOST_PASSES = 50  # after this many passes, the queue is assumed to move


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

    `waits` maps a running job's key to the keys of the jobs that it waits for. A running job can
    continue if each of these jobs can continue too, or can start in the capacity that the stuck
    jobs leave. A running job that waits for no other job is assumed to end at some time.

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

    The simulation assumes that each job that starts has ended by the next pass.
    """
    left = list(queue)
    for _ in range(_MOST_PASSES):
        admitted = {one.key for one in admit(left, running, capacity).admitted}
        if not admitted:
            return frozenset(job.key for job in left)
        left = [job for job in left if job.key not in admitted]
    return frozenset()

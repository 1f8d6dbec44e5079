"""The admission queue.

It lists the jobs that wait, and records how much capacity each admitted job uses.
"""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from windlass.engine.admission import (
    Allocation,
    FreeCapacity,
    Moves,
    Order,
    ReplicaKey,
    Shape,
    WaitingJob,
    admit,
    demand_of,
    order_ahead,
)
from windlass.engine.deadlock import Deadlock, find_deadlock
from windlass.engine.sizes import sizes_of, with_sizes
from windlass.engine.wait_reasons import explain, why_waiting
from windlass.model.hardware.resources import Capacity
from windlass.model.job import JobSpec


class QueuedJob(NamedTuple):
    """A waiting job, including its position in the queue and the reason why it waits."""

    uid: str
    position: int
    why: str
    ahead: str | None  # the job directly ahead
    order: Order


class AdmissionQueue:
    """The jobs that wait for capacity on a machine, and the admitted jobs. Thread-safe.

    >>> from windlass.model.job import ProcessCall, Role
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    >>> queue = AdmissionQueue(Capacity(cpus=1, memory=0))
    >>> queue.submit("a", spec, priority=0, created=1)
    >>> queue.submit("b", spec, priority=0, created=2)
    >>> queue.admit_waiting()
    ['a']
    >>> queue.explain("b")
    ('needs 1 CPU, 0 free; 1st in queue', 1)
    >>> queue.release("a")
    >>> queue.admit_waiting()
    ['b']
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._waiting: dict[str, WaitingJob] = {}
        self._line: list[Order] = []  # the sorted positions of the waiting jobs
        self._shapes: Counter[Shape] = Counter()  # the number of waiting jobs per shape
        self._running: dict[str, Allocation] = {}
        self._is_stale = False  # True if a pass might admit a job
        self._passes = 0  # the number of passes so far that admitted a job

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    def submit(
        self, uid: str, spec: JobSpec, priority: int, created: float, moves: Moves = ()
    ) -> None:
        """Add a job to the queue, or move a waiting job to its new position.

        A job that already holds capacity waits only for the additional capacity that it requests.
        """
        with self._lock:
            old = self._waiting.get(uid)
            requested_in = self._passes if old is None else old.since_pass
            order = (-priority, created, moves, uid)
            if old is not None and old.order != order:
                requested_in = self._passes  # no job has passed this job since it moved
            new = _waiting_entry(uid, spec, order, self._running.get(uid), requested_in)
            if new == old:
                return
            self._withdraw(uid)
            if new is None:
                return
            self._waiting[uid] = new
            bisect.insort(self._line, new.order)
            self._shapes[new.shape] += 1
            self._is_stale = True

    def restore(
        self,
        uid: str,
        spec: JobSpec,
        priority: int,
        created: float,
        devices: Mapping[ReplicaKey, tuple[int, ...]],
        moves: Moves = (),
    ) -> None:
        """Restore the capacity and devices that a job held before this process started."""
        with self._lock:
            self._withdraw(uid)
            self._running[uid] = Allocation(
                key=uid,
                demand=demand_of(spec),
                order=(-priority, created, moves, uid),
                devices=dict(devices),
                sizes=sizes_of(spec),
            )
            self._is_stale = True

    def shrink(self, uid: str, spec: JobSpec, most: Mapping[str, int]) -> None:
        """Release surplus replicas' capacity. `most` is the number of replicas to keep per role."""
        with self._lock:
            held = self._running.get(uid)
            if held is None:
                return
            sizes = {role: min(size, most.get(role, 0)) for role, size in held.sizes.items()}
            if sizes == held.sizes:
                return
            devices = {at: some for at, some in held.devices.items() if at[1] < sizes[at[0]]}
            demand = demand_of(with_sizes(spec, sizes))
            self._running[uid] = msgspec.structs.replace(
                held, demand=demand, devices=devices, sizes=sizes
            )
            self._is_stale = True

    def withdraw(self, uid: str) -> None:
        """Remove a job from the queue without releasing the capacity that it holds."""
        with self._lock:
            self._withdraw(uid)

    def release(self, uid: str) -> None:
        """Remove a job from the queue and release its capacity."""
        with self._lock:
            self._withdraw(uid)
            if self._running.pop(uid, None) is not None:
                self._is_stale = True

    def admit_waiting(self) -> list[str]:
        """Admit all jobs that can start now, and return them in order.

        Returns [] at once if nothing changed since the last call.
        """
        with self._lock:
            if not self._is_stale:
                return []
            self._is_stale = False
            in_order = (self._waiting[order[-1]] for order in self._line)
            admission = admit(
                in_order,
                list(self._running.values()),
                self._capacity,
                shapes=len(self._shapes),
            )
            for allocation in admission.admitted:
                self._withdraw(allocation.key)
                held = self._running.get(allocation.key)
                granted = msgspec.structs.replace(allocation, in_pass=self._passes)
                self._running[allocation.key] = granted if held is None else held.joined(granted)
            if admission.admitted:
                self._passes += 1
            return [allocation.key for allocation in admission.admitted]

    def is_admitted(self, uid: str) -> bool:
        """Return True if a job holds capacity."""
        with self._lock:
            return uid in self._running

    def is_waiting(self, uid: str) -> bool:
        """Return True if a job waits for capacity."""
        with self._lock:
            return uid in self._waiting

    def allocation_of(self, uid: str) -> Allocation | None:
        """Return the capacity that a job holds, or None if the job holds none."""
        with self._lock:
            return self._running.get(uid)

    def devices(self, uid: str) -> dict[ReplicaKey, tuple[int, ...]]:
        """Return the accelerators that each replica of a job holds, by role and index."""
        with self._lock:
            allocation = self._running.get(uid)
            return dict(allocation.devices) if allocation is not None else {}

    def explain(self, uid: str) -> tuple[str, int] | None:
        """Return the reason why a job waits, and its position in the queue, counted from 1.

        Returns None if the job does not wait.
        """
        with self._lock:
            waiting = self._waiting.get(uid)
            if waiting is None:
                return None
            position = bisect.bisect_left(self._line, waiting.order) + 1
            running = list(self._running.values())
            own = self._running.get(uid)
        return explain(waiting.demand, position, running, self._capacity, own), position

    def find_deadlock(self, waits: Mapping[str, Collection[str]]) -> Deadlock:
        """Return the jobs that can never continue. `waits` maps a job to the jobs it waits for."""
        with self._lock:
            queue = [self._waiting[order[-1]] for order in self._line]
            running = list(self._running.values())
        return find_deadlock(waits, running, queue, self._capacity)

    def line(self, after: Order | None, limit: int) -> list[QueuedJob]:
        """Return at most `limit` waiting jobs in queue order, starting behind `after`."""
        with self._lock:
            first = 0 if after is None else bisect.bisect_right(self._line, after)
            last = min(first + limit, len(self._line))
            orders = self._line[max(first - 1, 0) : last]
            running = list(self._running.values())
            own = {order[-1]: self._running.get(order[-1]) for order in orders}
            waiting = [self._waiting[order[-1]] for order in orders]
        ahead = [None, *orders] if first == 0 else orders
        shown = waiting if first == 0 else waiting[1:]
        return [
            QueuedJob(
                job.key,
                position,
                why_waiting(job.demand, position, running, self._capacity, own[job.key]),
                None if before is None else before[-1],
                job.order,
            )
            for position, (job, before) in enumerate(zip(shown, ahead, strict=False), first + 1)
        ]

    def reorder(self, uid: str, priority: int, created: float, moves: Moves) -> None:
        """Move a waiting job to another position. Do nothing if the job no longer waits."""
        with self._lock:
            old = self._waiting.get(uid)
            if old is None:
                return
            new = msgspec.structs.replace(
                old, priority=priority, created=created, moves=moves, since_pass=self._passes
            )
            self._withdraw(uid)
            self._waiting[uid] = new
            bisect.insort(self._line, new.order)
            self._shapes[new.shape] += 1
            self._is_stale = True

    def order_ahead_of(self, uid: str, number: int, other: str) -> tuple[int, float, Moves] | None:
        """Return the priority, age and moves that put the job `uid` directly ahead of `other`.

        Returns None if either job does not wait.
        """
        with self._lock:
            waiting, target = self._waiting.get(uid), self._waiting.get(other)
            if waiting is None or target is None:
                return None
            orders = [
                waiting_job.order
                for waiting_job in self._waiting.values()
                if waiting_job.key != uid
            ]
            orders += [
                allocation.order for allocation in self._running.values() if allocation.key != uid
            ]
            before = max((order for order in orders if order < target.order), default=None)
            return order_ahead(target.order, before, number)

    def free(self) -> Capacity:
        """Return the capacity that no admitted job holds."""
        with self._lock:
            capacity = FreeCapacity(self._capacity, self._running.values())
        return Capacity(
            cpus=max(capacity.millicpus, 0) / 1000,
            memory=max(capacity.memory, 0),
            devices=tuple(capacity.devices.values()),
        )

    def __len__(self) -> int:
        """Return the number of waiting jobs."""
        with self._lock:
            return len(self._waiting)

    def _withdraw(self, uid: str) -> None:
        waiting = self._waiting.pop(uid, None)
        if waiting is None:
            return
        del self._line[bisect.bisect_left(self._line, waiting.order)]
        self._shapes[waiting.shape] -= 1
        if not self._shapes[waiting.shape]:
            del self._shapes[waiting.shape]
        self._is_stale = True


def _waiting_entry(
    uid: str, spec: JobSpec, order: Order, held: Allocation | None, requested_in: int
) -> WaitingJob | None:
    """Return a job's queue entry, or None if the job already holds all the capacity it requests.

    If the job holds some capacity, the entry requests only the additional capacity.
    """
    sizes = sizes_of(spec)
    has: dict[str, int] = {}
    if held is not None:
        has = held.sizes
        sizes = {name: size for name, size in sizes.items() if size > has.get(name, 0)}
        if not sizes:
            return None
    return WaitingJob(
        key=uid,
        demand=demand_of(spec, beyond=has),
        priority=-order[0],
        created=order[1],
        moves=order[2],
        sizes=sizes,
        grows=held is not None,
        since_pass=requested_in,
    )

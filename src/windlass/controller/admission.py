"""The admission queue: who waits for room, who has it, and what there is."""

from __future__ import annotations

import bisect
import threading
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from windlass.engine.admission import (
    Allocation,
    Moves,
    Order,
    Place,
    Room,
    Shape,
    Waiting,
    admit,
    ahead_of,
    demand_of,
)
from windlass.engine.explanations import explain, why_waiting
from windlass.engine.sizes import sizes_of, with_sizes
from windlass.model.job import JobSpec
from windlass.model.resources import Capacity


class InLine(NamedTuple):
    """A job that waits: where, for what, and behind whom."""

    uid: str
    position: int
    why: str
    ahead: str | None
    order: Order


class AdmissionQueue:
    """Jobs waiting for room on a machine and jobs that have it; safe to use from any thread.

    >>> from windlass.model.job import ProcessCall, Role
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    >>> queue = AdmissionQueue(Capacity(cpus=1, memory=0))
    >>> queue.submit("a", spec, priority=0, created=1)
    >>> queue.submit("b", spec, priority=0, created=2)
    >>> queue.pass_()
    ['a']
    >>> queue.explain("b")
    ('needs 1 CPU, 0 free; 1st in queue', 1)
    >>> queue.release("a")
    >>> queue.pass_()
    ['b']
    """

    def __init__(self, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._waiting: dict[str, Waiting] = {}
        self._line: list[Order] = []  # of those waiting, sorted
        self._shapes: Counter[Shape] = Counter()  # of those waiting
        self._running: dict[str, Allocation] = {}
        self._is_stale = False  # whether a pass could let anybody in
        self._passes = 0  # that let anybody in: who waited already when another was let in

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    def submit(
        self, uid: str, spec: JobSpec, priority: int, created: float, moves: Moves = ()
    ) -> None:
        """Have a job wait for room; one that waits already takes the place it now asks for.

        One that has room waits for what it asks for beyond that, if it does.
        """
        with self._lock:
            old = self._waiting.get(uid)
            asked = self._passes if old is None else old.asked
            order = (-priority, created, moves, uid)
            if old is not None and old.order != order:
                asked = self._passes  # nobody who runs has passed it where it stands now
            new = _asked(uid, spec, order, self._running.get(uid), asked)
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
        devices: Mapping[Place, tuple[int, ...]],
        moves: Moves = (),
    ) -> None:
        """A job had room before this process began: it keeps it, with the same devices."""
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
        """A job gives back the room of all but so many replicas of each role."""
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
        """A job no longer waits; what room it has it keeps."""
        with self._lock:
            self._withdraw(uid)

    def release(self, uid: str) -> None:
        """A job no longer needs or wants room."""
        with self._lock:
            self._withdraw(uid)
            if self._running.pop(uid, None) is not None:
                self._is_stale = True

    def pass_(self) -> list[str]:
        """Let in whoever may start now, in order. Costs nothing if nothing changed."""
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
            for each in admission.admitted:
                self._withdraw(each.key)
                held = self._running.get(each.key)
                given = msgspec.structs.replace(each, given=self._passes)
                self._running[each.key] = given if held is None else held.joined(given)
            if admission.admitted:
                self._passes += 1
            return [each.key for each in admission.admitted]

    def is_admitted(self, uid: str) -> bool:
        """Whether a job has room."""
        with self._lock:
            return uid in self._running

    def is_waiting(self, uid: str) -> bool:
        """Whether a job waits for room."""
        with self._lock:
            return uid in self._waiting

    def room_of(self, uid: str) -> Allocation | None:
        """The room that a job has, if any."""
        with self._lock:
            return self._running.get(uid)

    def devices(self, uid: str) -> dict[Place, tuple[int, ...]]:
        """The accelerators that each replica of a job got, by role and index."""
        with self._lock:
            allocation = self._running.get(uid)
            return dict(allocation.devices) if allocation is not None else {}

    def explain(self, uid: str) -> tuple[str, int] | None:
        """What a job waits for and its place in the queue, from 1; none if it does not wait."""
        with self._lock:
            waiting = self._waiting.get(uid)
            if waiting is None:
                return None
            position = bisect.bisect_left(self._line, waiting.order) + 1
            running = list(self._running.values())
            own = self._running.get(uid)
        return explain(waiting.demand, position, running, self._capacity, own), position

    def line(self, after: Order | None, limit: int) -> list[InLine]:
        """Some of those who wait, in their order, beginning behind a place."""
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
            InLine(
                each.key,
                position,
                why_waiting(each.demand, position, running, self._capacity, own[each.key]),
                None if before is None else before[-1],
                each.order,
            )
            for position, (each, before) in enumerate(zip(shown, ahead, strict=False), first + 1)
        ]

    def reorder(self, uid: str, priority: int, created: float, moves: Moves) -> None:
        """Have a job that waits stand elsewhere; nothing if it no longer waits."""
        with self._lock:
            old = self._waiting.get(uid)
            if old is None:
                return
            new = msgspec.structs.replace(
                old, priority=priority, created=created, moves=moves, asked=self._passes
            )
            self._withdraw(uid)
            self._waiting[uid] = new
            bisect.insort(self._line, new.order)
            self._shapes[new.shape] += 1
            self._is_stale = True

    def place_ahead_of(self, uid: str, number: int, other: str) -> tuple[int, float, Moves] | None:
        """Priority, age and moves by which a job would stand right ahead of another.

        None if either does not wait.
        """
        with self._lock:
            waiting, target = self._waiting.get(uid), self._waiting.get(other)
            if waiting is None or target is None:
                return None
            orders = [each.order for each in self._waiting.values() if each.key != uid]
            orders += [each.order for each in self._running.values() if each.key != uid]
            before = max((each for each in orders if each < target.order), default=None)
            return ahead_of(target.order, before, number)

    def free(self) -> Capacity:
        """What nobody has been given."""
        with self._lock:
            room = Room(self._capacity, self._running.values())
        return Capacity(
            cpus=max(room.millicpus, 0) / 1000,
            memory=max(room.memory, 0),
            devices=tuple(room.devices.values()),
        )

    def __len__(self) -> int:
        """How many jobs are waiting."""
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


def _asked(
    uid: str, spec: JobSpec, order: Order, held: Allocation | None, asked: int
) -> Waiting | None:
    """What a job asks for beyond what it has, if anything."""
    sizes = sizes_of(spec)
    has: dict[str, int] = {}
    if held is not None:
        has = held.sizes
        sizes = {name: size for name, size in sizes.items() if size > has.get(name, 0)}
        if not sizes:
            return None
    return Waiting(
        key=uid,
        demand=demand_of(spec, beyond=has),
        priority=-order[0],
        created=order[1],
        moves=order[2],
        sizes=sizes,
        grows=held is not None,
        asked=asked,
    )

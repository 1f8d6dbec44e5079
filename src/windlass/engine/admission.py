"""Admission of waiting jobs: each job starts as a whole, and no job is overtaken.

Jobs are considered by priority, then first come first served. A job starts when all its replicas
fit together into the free capacity. The first job that does not fit is the head. A job behind the
head may start now only if every job it passes would still fit beside it, and beside all other jobs
that have passed the head, on the machine with everything else gone. Run times are unknown, so this
is the strongest guarantee: a passing job takes only capacity that the passed jobs would leave
unused, and the head never waits for a job that came after it.
A job too big for the whole machine keeps its position and delays no other job.
A running job that wants to grow waits like any other, at its own position, for all the capacity
that it gains, and keeps the capacity that it has.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.model.hardware.accelerators import satisfies
from windlass.model.hardware.resources import Capacity, Device
from windlass.model.job import JobSpec

ReplicaKey = tuple[str, int]  # role and index of a replica
# The position of a moved job: behind the job of that age, in steps. Each step has the number of the
# trial that it was created for.
Moves = tuple[tuple[int, int], ...]
Order = tuple[int, float, Moves, str]
Shape = tuple["Demand", str]


class Need(msgspec.Struct, frozen=True):
    """The accelerators that one replica requests."""

    role: str
    index: int
    kind: str
    count: int


class Demand(msgspec.Struct, frozen=True):
    """The total demand of all replicas of a job; CPUs in thousandths, so that sums are exact."""

    millicpus: int
    memory: int = 0
    accelerators: tuple[Need, ...] = ()


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that waits to start, or a running job that waits to grow by `demand`."""

    key: str
    demand: Demand
    priority: int = 0
    created: float = 0.0
    moves: Moves = ()
    sizes: dict[str, int] = {}  # role -> replicas, after admission
    grows: bool = False  # True if the job already has capacity and keeps it
    since_pass: int = 0  # the first admission pass after the job began to wait

    @property
    def order(self) -> Order:
        """The position in the queue: by priority, then by age, unless the job was moved."""
        return (-self.priority, self.created, self.moves, self.key)

    @property
    def shape(self) -> Shape:
        """The key for whether a job fits: all jobs of one shape fit, or none does."""
        return (self.demand, self.key if self.grows else "")


def order_ahead(order: Order, before: Order | None, number: int) -> tuple[int, float, Moves]:
    """Return priority, age and moves that put trial `number` directly ahead of `order`.

    `before` is the last other job that is already ahead of `order`, if any. There is always a
    position in between, and no two trials get the same position.

    >>> order_ahead((0, 5.0, (), "e"), (0, 4.0, (), "d"), 9)
    (0, 4.0, ((0, 9),))
    >>> order_ahead((0, 4.0, ((0, 9),), "i"), (0, 4.0, (), "d"), 8)
    (0, 4.0, ((-1, 8),))
    >>> order_ahead((0, 4.0, ((0, 9),), "i"), (0, 4.0, ((-1, 8),), "h"), 7)
    (0, 4.0, ((0, 7),))
    >>> order_ahead((-7, 5.0, (), "e"), (-9, 1.0, (), "a"), 9)
    (7, 4.0, ((0, 9),))
    """
    rank, age, moves, _ = order
    if before is None or before[0] != rank:
        if not moves:
            return -rank, age - 1, ((0, number),)
        return -rank, age, (*moves[:-1], (moves[-1][0] - 1, number))
    _, age, others, _ = before
    shared = len(others)
    if before[1] == order[1] and moves[:shared] == others:
        return -rank, age, (*others, (moves[shared][0] - 1, number))
    if others:
        following = (*others[:-1], (others[-1][0] + 1, number))
        if (age, following) < order[1:3]:
            return -rank, age, following
    return -rank, age, (*others, (0, number))


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """An admitted job and the devices of its replicas."""

    key: str
    demand: Demand
    order: Order
    devices: dict[ReplicaKey, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}  # role -> replicas
    in_pass: int = 0  # the pass that admitted the job

    @property
    def all_devices(self) -> tuple[int, ...]:
        return tuple(index for some in self.devices.values() for index in some)

    def has_passed(self, waiting: WaitingJob) -> bool:
        """Return True if this job was admitted before a job that already waited ahead of it."""
        return self.order > waiting.order and self.in_pass >= waiting.since_pass

    def joined(self, more: Allocation) -> Allocation:
        """Return the allocation after the job has grown by `more`."""
        return Allocation(
            key=self.key,
            demand=Demand(
                self.demand.millicpus + more.demand.millicpus,
                self.demand.memory + more.demand.memory,
                self.demand.accelerators + more.demand.accelerators,
            ),
            order=more.order,
            devices={**self.devices, **more.devices},
            sizes={**self.sizes, **more.sizes},
            in_pass=more.in_pass,
        )


class Admission(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that may start."""

    admitted: tuple[Allocation, ...] = ()


def demand_of(spec: JobSpec, beyond: Mapping[str, int] | None = None) -> Demand:
    """Return the demand of a job, without the replicas that already have capacity.

    >>> from windlass.model.job import ProcessCall, Role
    >>> from windlass.model.hardware.resources import Resources
    >>> role = Role(
    ...     executable=ProcessCall(argv=("true",)), replicas=3, resources=Resources(cpus=0.5)
    ... )
    >>> demand_of(JobSpec(roles=(role,)))
    Demand(millicpus=1500, memory=0, accelerators=())
    >>> demand_of(JobSpec(roles=(role,)), {"main": 2})
    Demand(millicpus=500, memory=0, accelerators=())
    """
    millicpus = memory = 0
    needs: list[Need] = []
    for role in spec.roles:
        resources = role.resources
        first = beyond.get(role.name, 0) if beyond else 0
        count = max(role.replicas - first, 0)
        millicpus += round(resources.cpus * 1000) * count
        memory += resources.memory * count
        if resources.accelerator is not None and resources.accelerator.count > 0:
            needs += [
                Need(role.name, index, resources.accelerator.kind, resources.accelerator.count)
                for index in range(first, role.replicas)
            ]
    return Demand(millicpus, memory, tuple(needs))


def assign_devices(
    needs: Sequence[Need], devices: Mapping[int, Device]
) -> dict[ReplicaKey, tuple[int, ...]] | None:
    """Assign devices to every need, or return None if there are too few.

    Needs that few devices satisfy choose first, and each need takes the least capable devices that
    satisfy it.

    >>> gpus = {
    ...     0: Device(index=0, kind="a100", memory=40),
    ...     1: Device(index=1, kind="t4", memory=16),
    ... }
    >>> assign_devices([Need("main", 0, "gpu", 1), Need("main", 1, "a100", 1)], gpus)
    {('main', 1): (0,), ('main', 0): (1,)}
    """
    if not needs:
        return {}
    if sum(need.count for need in needs) > len(devices):
        return None
    left = dict(devices)
    serving = {
        kind: sorted(
            (device.kind != kind, device.memory, device.index)
            for device in devices.values()
            if satisfies(device.kind, kind)
        )
        for kind in {need.kind for need in needs}
    }
    assigned: dict[ReplicaKey, tuple[int, ...]] = {}
    for need in sorted(needs, key=lambda need: (len(serving[need.kind]), need.role, need.index)):
        able = (index for _, _, index in serving[need.kind] if index in left)
        chosen = list(itertools.islice(able, need.count))
        if len(chosen) < need.count:
            return None
        for index in chosen:
            del left[index]
        assigned[need.role, need.index] = tuple(sorted(chosen))
    return assigned


class FreeCapacity:
    """The free capacity of a machine while jobs are assigned to it.

    >>> free = FreeCapacity(Capacity(cpus=2, memory=0))
    >>> free.take(Demand(1500), ())
    >>> free.assign(Demand(600)) is None
    True
    """

    def __init__(self, capacity: Capacity, taken: Iterable[Allocation] = ()) -> None:
        self.millicpus = round(capacity.cpus * 1000)
        self.memory = capacity.memory
        self.devices = {device.index: device for device in capacity.devices}
        for allocation in taken:
            self.take(allocation.demand, allocation.all_devices)

    def assign(self, demand: Demand) -> dict[ReplicaKey, tuple[int, ...]] | None:
        """Return the devices a job would get, or None if the job does not fit."""
        if not self.holds(demand.millicpus, demand.memory):
            return None
        return assign_devices(demand.accelerators, self.devices)

    def holds(self, millicpus: int, memory: int) -> bool:
        """Return True if this much is free. Zero always fits, even on an overcommitted machine."""
        return (millicpus <= 0 or millicpus <= self.millicpus) and (
            memory <= 0 or memory <= self.memory
        )

    def take(self, demand: Demand, devices: Iterable[int]) -> None:
        """Subtract the demand of a job, even below zero: running jobs continue to run."""
        self.millicpus -= demand.millicpus
        self.memory -= demand.memory
        for index in devices:
            self.devices.pop(index, None)

    def fits_beside(self, demand: Demand, other: Demand, others_devices: Iterable[int]) -> bool:
        """Return True if a job would fit after another job has received these devices."""
        if not self.holds(
            demand.millicpus + other.millicpus if demand.millicpus else 0,
            demand.memory + other.memory if demand.memory else 0,
        ):
            return False
        if not demand.accelerators:
            return True
        gone = set(others_devices)
        left = {index: device for index, device in self.devices.items() if index not in gone}
        return assign_devices(demand.accelerators, left) is not None


def admit(
    waiting: Iterable[WaitingJob],
    running: Sequence[Allocation],
    capacity: Capacity,
    *,
    shapes: int | None = None,
) -> Admission:
    """Select the waiting jobs, given in queue order, that may start beside the running jobs.

    `shapes` is the number of different demands in the queue: once each was refused, the rest of the
    queue is skipped, so that a pass over a long queue of similar jobs is short.

    >>> machine = Capacity(cpus=2, memory=0)
    >>> jobs = [WaitingJob(key=key, demand=Demand(1000)) for key in "abc"]
    >>> [job.key for job in admit(jobs, [], machine).admitted]
    ['a', 'b']
    """
    free = FreeCapacity(capacity, running)
    empty = FreeCapacity(capacity)
    admitted: list[Allocation] = []
    refused: set[Shape] = set()
    passed: list[_Passed] = []  # jobs that must not be delayed
    beside = FreeCapacity(capacity)  # capacity beside the jobs that passed any of them
    behind: list[Allocation] = []  # running jobs behind the first of them
    counted: set[str] = set()  # keys of `behind` jobs that have passed any of them
    for candidate in waiting:
        if candidate.shape in refused:
            continue
        devices = free.assign(candidate.demand)
        if devices is not None and passed:
            taken = [index for some in devices.values() for index in some]
            if not all(one.fits(beside, candidate.demand, taken) for one in passed):
                devices = None
        if devices is None:
            refused.add(candidate.shape)
            own = None
            if candidate.grows:
                own = next((one for one in running if one.key == candidate.key), None)
            alone = empty if own is None else FreeCapacity(capacity, (own,))
            if alone.assign(candidate.demand) is not None:
                if not passed:
                    behind = [one for one in running if one.order > candidate.order]
                passed.append(
                    _Passed.of(candidate.demand, None if candidate.key in counted else own)
                )
                for one in behind:
                    if one.key not in counted and one.has_passed(candidate):
                        counted.add(one.key)
                        beside.take(one.demand, one.all_devices)
            if shapes is not None and len(refused) >= shapes:
                break
            continue
        let_in = Allocation(
            key=candidate.key,
            demand=candidate.demand,
            order=candidate.order,
            devices=devices,
            sizes=candidate.sizes,
        )
        admitted.append(let_in)
        taken = [index for some in devices.values() for index in some]
        free.take(candidate.demand, taken)
        if passed:
            beside.take(candidate.demand, taken)
    return Admission(admitted=tuple(admitted))


class _Passed(msgspec.Struct, frozen=True):
    """A passed job, with the resources that it holds while it waits to grow."""

    demand: Demand
    devices: tuple[int, ...]

    @staticmethod
    def of(demand: Demand, own: Allocation | None) -> _Passed:
        if own is None:
            return _Passed(demand, ())
        total = Demand(
            demand.millicpus and demand.millicpus + own.demand.millicpus,
            demand.memory and demand.memory + own.demand.memory,
            demand.accelerators,
        )
        return _Passed(total, own.all_devices)

    def fits(self, beside: FreeCapacity, other: Demand, others_devices: Sequence[int]) -> bool:
        """Return True if the job would still fit after another job has received these devices."""
        return beside.fits_beside(self.demand, other, (*others_devices, *self.devices))

"""Selects the waiting jobs that can start.

A job starts only when all its replicas fit into the free capacity. Jobs are considered in order of
priority, and at equal priority in order of submission. The first job that does not fit is the head
of the queue.

A job behind the head can pass the jobs ahead only if none of them is delayed. To check this, the
engine imagines a machine that runs only this job and all jobs that have already passed the head.
Each job that would be passed must fit on that machine. Windlass does not know run times, so no
stronger guarantee is possible: the passing job takes only capacity that the passed jobs would leave
unused, and the head never waits for a job that was submitted later.

A job that is too big for the whole machine keeps its position and delays no other job. A running
job that wants to grow keeps its capacity and waits at its own position, until all the additional
capacity is free.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from windlass.model.hardware.accelerators import satisfies
from windlass.model.hardware.resources import Capacity, Device
from windlass.model.job import JobSpec

ReplicaKey = tuple[str, int]  # role and index of a replica
# The position of a user-moved job among jobs of the same age. Each pair consists of a number of
# steps backward and the moved trial's number.
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
    """The total resources that all replicas of a job request.

    CPUs are counted in thousandths, so that sums are exact.
    """

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
    sizes: dict[str, int] = {}  # replicas per role after admission
    grows: bool = False  # True if the job already has capacity and keeps that capacity
    since_pass: int = 0  # the number of the first admission pass after the job began to wait

    @property
    def order(self) -> Order:
        """The sort key of the job's position in the queue.

        Jobs sort by priority, then by age. A job that a user moved also has `moves`, which put the
        job at its new position.
        """
        return (-self.priority, self.created, self.moves, self.key)

    @property
    def shape(self) -> Shape:
        """A key that is the same for all jobs that fit under the same conditions.

        If one job does not fit, no other job of the same shape fits either.
        """
        return (self.demand, self.key if self.grows else "")


def order_ahead(order: Order, before: Order | None, number: int) -> tuple[int, float, Moves]:
    """Return the priority, age and moves that put trial `number` directly ahead of `order`.

    `before` is the order of the job directly ahead of `order`, not counting the trial itself. It is
    None if there is no such job. A free position between `before` and `order` always exists, and no
    two trials get the same position.

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
    sizes: dict[str, int] = {}  # replicas per role
    in_pass: int = 0  # the number of the pass that admitted this job

    @property
    def all_devices(self) -> tuple[int, ...]:
        return tuple(index for some in self.devices.values() for index in some)

    def has_passed(self, waiting: WaitingJob) -> bool:
        """Return True if this job was behind `waiting` in the queue and was admitted first."""
        return self.order > waiting.order and self.in_pass >= waiting.since_pass

    def joined(self, more: Allocation) -> Allocation:
        """Return this job's allocation after the job has grown by `more`."""
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
    """The result of an admission pass: names the jobs that can start."""

    admitted: tuple[Allocation, ...] = ()


def demand_of(spec: JobSpec, beyond: Mapping[str, int] | None = None) -> Demand:
    """Return the demand of a job's replicas, except those that already have capacity.

    `beyond` is the number of replicas per role that already have capacity.

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
    """Assign devices to every need, or return None if the devices do not suffice.

    The need that the fewest devices can satisfy chooses first. Each need prefers devices of exactly
    the requested kind, then devices that have the least memory.

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
    """The free capacity of a machine, which decreases as jobs are assigned to the machine.

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
        """Return the devices that a job would get, or None if the job does not fit."""
        if not self.holds(demand.millicpus, demand.memory):
            return None
        return assign_devices(demand.accelerators, self.devices)

    def holds(self, millicpus: int, memory: int) -> bool:
        """Return True if this many thousandths of a CPU and this much memory are free.

        A request for zero always fits, even if the running jobs use more than the capacity.
        """
        return (millicpus <= 0 or millicpus <= self.millicpus) and (
            memory <= 0 or memory <= self.memory
        )

    def take(self, demand: Demand, devices: Iterable[int]) -> None:
        """Subtract a job's demand from the free capacity.

        The result may be negative: if the capacity was reduced, running jobs continue to run.
        """
        self.millicpus -= demand.millicpus
        self.memory -= demand.memory
        for index in devices:
            self.devices.pop(index, None)

    def fits_beside(self, demand: Demand, other: Demand, others_devices: Iterable[int]) -> bool:
        """Return True if `demand` fits beside another job's demand and its devices."""
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
    """Select the waiting jobs that can start beside the running jobs.

    `waiting` must be in queue order. `shapes` is the number of different demands in the queue. Once
    every one of them has been refused, `admit` skips the rest of the queue. A pass over a long
    queue of similar jobs is therefore short.

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
    beside = FreeCapacity(capacity)  # the machine if it ran only jobs that passed a job in `passed`
    behind: list[Allocation] = []  # running jobs that come after the first job in `passed`
    counted: set[str] = set()  # keys of the jobs in `behind` that passed a job in `passed`
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
    """A waiting job that later jobs can pass without delaying it.

    If the job waits to grow, `demand` and `devices` include the resources that the job holds.
    """

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
        """Return True if this job still fits beside another job that gets `others_devices`."""
        return beside.fits_beside(self.demand, other, (*others_devices, *self.devices))

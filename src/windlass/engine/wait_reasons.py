"""Texts that explain why a job waits, or why a job can never start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass.engine.admission import Allocation, Demand, FreeCapacity, Need, demand_of
from windlass.model.hardware.accelerators import KINDS, satisfies
from windlass.model.hardware.resources import Capacity, Device
from windlass.model.job import JobSpec, Role
from windlass.model.text.quantities import format_ordinal, format_size

_FAMILIES = {kind.name: kind.family.upper() for kind in KINDS}


def explain(
    demand: Demand,
    position: int,
    running: Sequence[Allocation],
    capacity: Capacity,
    own: Allocation | None = None,
) -> str:
    """Explain why a job waits, and name its position in the queue, counted from 1.

    `own` is the capacity that a growing job already holds.

    >>> machine = Capacity(cpus=2, memory=0)
    >>> runs = Allocation(key="a", demand=Demand(1500), order=(0, 0.0, (), "a"))
    >>> explain(Demand(2000), 1, [runs], machine)
    'needs 2 CPUs, 0.5 free; 1st in queue'
    >>> explain(Demand(500), 2, [runs], machine)
    'would fit, but must not delay the one ahead; 2nd in queue'
    >>> explain(Demand(1000), 1, [runs], Capacity(cpus=3, memory=0), own=runs)
    'about to grow; 1st in queue'
    """
    why = why_waiting(demand, position, running, capacity, own)
    return f"{why}; {format_ordinal(position)} in queue"


def why_waiting(
    demand: Demand,
    position: int,
    running: Sequence[Allocation],
    capacity: Capacity,
    own: Allocation | None = None,
) -> str:
    """Explain why a job waits. The text does not name the position in the queue."""
    more = "" if own is None else " more"
    never = _shortages(demand, FreeCapacity(capacity, () if own is None else (own,)))
    if never:
        return _never(never, more)
    short = _shortages(demand, FreeCapacity(capacity, running))
    if short:
        return ", ".join(
            f"needs {shortage.requested}{more}, {shortage.left} free" for shortage in short
        )
    if position == 1:
        return f"about to {'start' if own is None else 'grow'}"
    ahead = "the one ahead" if position == 2 else f"the {position - 1} ahead"
    return f"would fit, but must not delay {ahead}"


def impossible(spec: JobSpec, capacity: Capacity) -> str | None:
    """Explain why a job can never start on a machine. Return None if the job can start.

    >>> from windlass.model.job import ProcessCall
    >>> from windlass.model.hardware.resources import Resources
    >>> role = Role(executable=ProcessCall(argv=("true",)), resources=Resources(cpus=16))
    >>> impossible(JobSpec(roles=(role,)), Capacity(cpus=2, memory=0))
    'needs 16 CPUs on one machine; there are 2'
    """
    short = _of_one_replica(spec, capacity)
    if short:
        return _never(short, " on one machine")
    short = _shortages(demand_of(spec), FreeCapacity(capacity))
    total = sum(role.replicas for role in spec.roles)
    return _never(short, f" for its {total} replicas") if short else None


def lacking(spec: JobSpec, capacity: Capacity) -> frozenset[str]:
    """Return the names of the resources that a job requests beyond the whole machine's total.

    The names match those of executor options, such as `cpus` and `memory`.

    >>> from windlass.model.job import ProcessCall
    >>> role = Role(executable=ProcessCall(argv=("true",)), replicas=4)
    >>> sorted(lacking(JobSpec(roles=(role,)), Capacity(cpus=2, memory=0)))
    ['cpus']
    """
    short = _of_one_replica(spec, capacity) or _shortages(demand_of(spec), FreeCapacity(capacity))
    return frozenset(shortage.resource for shortage in short)


class _Shortage(msgspec.Struct, frozen=True):
    """A resource that a job requests in a larger amount than is available."""

    resource: str
    requested: str
    left: str
    is_one: bool  # True if `left` takes a singular verb


def _never(short: Sequence[_Shortage], where: str) -> str:
    return "; ".join(
        f"needs {shortage.requested}{where}; "
        f"there {'is' if shortage.is_one else 'are'} {shortage.left}"
        for shortage in short
    )


def _of_one_replica(spec: JobSpec, capacity: Capacity) -> list[_Shortage]:
    """Return the resources that a single replica requests beyond the whole machine's total."""
    shortages = (
        _shortages(_one(role), FreeCapacity(capacity)) for role in spec.roles if role.replicas
    )
    return next((short for short in shortages if short), [])


def _shortages(demand: Demand, free: FreeCapacity) -> list[_Shortage]:
    shortages = []
    for kind in dict.fromkeys(need.kind for need in demand.accelerators):
        requested = sum(need.count for need in demand.accelerators if need.kind == kind)
        able = _count(free.devices.values(), kind)
        if requested > able:
            shortages.append(
                _Shortage("accelerator", _devices(requested, kind), str(able), able == 1)
            )
    if not shortages and free.assign(Demand(0, 0, demand.accelerators)) is None:
        # The devices suffice for each requested kind alone, but not for all kinds together.
        requested = sum(need.count for need in demand.accelerators)
        shortages.append(
            _Shortage("accelerator", _devices(requested, "gpu"), str(len(free.devices)), False)
        )
    if not free.holds(demand.millicpus, 0):
        cpus, left = demand.millicpus / 1000, max(free.millicpus, 0) / 1000
        word = "CPU" if cpus == 1 else "CPUs"
        shortages.append(_Shortage("cpus", f"{cpus:g} {word}", f"{left:g}", left == 1))
    if not free.holds(0, demand.memory):
        size, unused = format_size(demand.memory), format_size(max(free.memory, 0))
        shortages.append(_Shortage("memory", f"{size} of memory", unused, True))
    return shortages


def _one(role: Role) -> Demand:
    resources = role.resources
    needs: tuple[Need, ...] = ()
    if resources.accelerator is not None and resources.accelerator.count > 0:
        needs = (Need(role.name, 0, resources.accelerator.kind, resources.accelerator.count),)
    return Demand(round(resources.cpus * 1000), resources.memory, needs)


def _devices(count: int, kind: str) -> str:
    family = _FAMILIES.get(kind, "accelerator")
    words = f"{count} {family}" + ("" if count == 1 else "s")
    return words if kind == "gpu" else f"{words} ({kind})"


def _count(devices: Iterable[Device], kind: str) -> int:
    return sum(satisfies(device.kind, kind) for device in devices)

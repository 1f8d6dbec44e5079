"""A job's sizes: for each role, the number of replicas that have capacity.

The sizes can differ from the requested number of replicas. A growing job keeps its old sizes until
all additional replicas have capacity. A shrinking job stops surplus replicas at once, and keeps
their capacity until they have ended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from windlass.engine.slots import is_alive
from windlass.model.job import JobSpec
from windlass.model.status import Replica


def sizes_of(spec: JobSpec) -> dict[str, int]:
    """Return the requested number of replicas of each role."""
    return {role.name: role.replicas for role in spec.roles}


def has_all(spec: JobSpec, sizes: Mapping[str, int]) -> bool:
    """Return True if the sizes are exactly the requested sizes."""
    for role in spec.roles:  # noqa: SIM110  # a loop is faster, and every reconciliation runs it
        if sizes.get(role.name) != role.replicas:
            return False
    return True


def with_sizes(spec: JobSpec, sizes: Mapping[str, int]) -> JobSpec:
    """Return the job, taking the number of replicas of each role from `sizes`.

    >>> from windlass.model.job import ProcessCall, Role
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",)), replicas=3),))
    >>> sizes_of(with_sizes(spec, {"main": 2}))
    {'main': 2}
    """
    roles = tuple(
        msgspec.structs.replace(role, replicas=sizes.get(role.name, 0)) for role in spec.roles
    )
    return msgspec.structs.replace(spec, roles=roles)


def effective_spec(spec: JobSpec, sizes: Mapping[str, int]) -> JobSpec:
    """Return the job, reduced to the replicas that have capacity.

    >>> from windlass.model.job import ProcessCall, Role
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",)), replicas=3),))
    >>> [effective_spec(spec, {"main": n}).roles[0].replicas for n in (2, 3, 4)]
    [2, 3, 3]
    """
    if not sizes or has_all(spec, sizes):
        return spec
    fitting = {role.name: min(role.replicas, sizes.get(role.name, 0)) for role in spec.roles}
    return with_sizes(spec, fitting)


def resized_message(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    """Describe a restart of all replicas after their number changed.

    >>> resized_message({"chief": 1, "worker": 2}, {"chief": 1, "worker": 4})
    'worker: 2 -> 4 replicas; all start again'
    """
    changes = [
        f"{role}: {before.get(role, 0)} -> {size} replica{'' if size == 1 else 's'}"
        for role, size in after.items()
        if before.get(role, 0) != size
    ]
    return f"{', '.join(changes)}; all start again"


def sizes_left(
    spec: JobSpec, sizes: Mapping[str, int], replicas: Sequence[Replica]
) -> Mapping[str, int]:
    """Return a job's sizes after removed replicas that have ended gave up their capacity."""
    if has_all(spec, sizes):
        return sizes
    left = dict(sizes)
    for role in spec.roles:
        has = sizes.get(role.name, 0)
        if has > role.replicas:
            living = (
                replica.id.index + 1
                for replica in replicas
                if replica.id.role == role.name and replica.id.index < has and is_alive(replica)
            )
            left[role.name] = max(role.replicas, *living, 0)
    return left

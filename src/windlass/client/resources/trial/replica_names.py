"""Returns the names of a trial's replicas."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.job import GeneratorCall, JobSpec
from windlass.model.records import Attempt, Cause, TrialRecord


def name_of(which: Attempt | Cause) -> str:
    """Return a replica's name, which consists of its role and index.

    >>> name_of(Cause(role="worker", index=1, attempt=2))
    'worker-1'
    """
    return f"{which.role}-{which.index}"


def names_of(spec: JobSpec, attempts: Sequence[Attempt] = ()) -> list[str]:
    """Return the names of a job's replicas in order, or [] if there is only one.

    >>> from windlass.model.job import ProcessCall, Role
    >>> role = Role(executable=ProcessCall(argv=("true",)), name="worker", replicas=2)
    >>> names_of(JobSpec(roles=(role,)))
    ['worker-0', 'worker-1']
    """
    if len(spec.roles) == 1 and spec.roles[0].replicas <= 1 and len(attempts) <= 1:
        return []
    names = [f"{role.name}-{index}" for role in spec.roles for index in range(role.replicas)]
    # Some attempts may belong to replicas that no longer exist.
    all_names = list(dict.fromkeys([*names, *map(name_of, attempts)]))
    return all_names if len(all_names) > 1 else []


def is_generated(trial: TrialRecord) -> bool:
    """Return whether a trial only runs a generator (a user function that adds child trials)."""
    return isinstance(trial.spec.roles[0].executable, GeneratorCall)


def has_several(trial: TrialRecord) -> bool:
    """Return whether a trial has, or once had, more than one replica."""
    return bool(names_of(trial.spec, trial.attempts))

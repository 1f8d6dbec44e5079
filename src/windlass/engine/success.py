"""Decides whether a job has succeeded. The framework determines which replicas must succeed."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.engine.slots import Slot
from windlass.model.exhaustive import assert_never
from windlass.model.job import JobSpec, SuccessPolicy

_CHIEFS = ("chief", "master")
_WORKER = "worker"


def deciders_done(spec: JobSpec, slots: Sequence[Slot]) -> list[Slot]:
    """Return the replicas whose success made the job succeed, chiefs first.

    Returns an empty list if the job has not succeeded.
    """
    deciders = deciding_slots(spec, slots)
    if not deciders or not all(slot.is_done for slot in deciders):
        return []
    return sorted(deciders, key=lambda slot: slot.role.name not in _CHIEFS)


def success_message(slots: Sequence[Slot], deciders: Sequence[Slot]) -> str:
    """Explain why the job succeeded. `deciders` are the replicas whose success was required.

    >>> from windlass.model.job import ProcessCall, Role
    >>> from windlass.model.status import JobStatus, Phase, Replica, ReplicaId
    >>> from windlass.engine.slots import observe
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("true",))),))
    >>> ended = Replica(id=ReplicaId("main", 0, 1), phase=Phase.SUCCEEDED, exit_code=0)
    >>> slots = observe(spec, JobStatus(), [ended])
    >>> success_message(slots, deciders_done(spec, slots))
    'succeeded'
    """
    if len(slots) == 1:
        return "succeeded"
    if len(deciders) == len(slots):
        return "all replicas succeeded"
    if len(deciders) == 1:
        return f"{deciders[0].role.name}-{deciders[0].history.index} succeeded"
    names = dict.fromkeys(slot.role.name for slot in deciders)
    return f"all replicas of {', '.join(names)} succeeded"


def deciding_slots(spec: JobSpec, slots: Sequence[Slot]) -> list[Slot]:
    """Return the replicas that must all succeed before the job succeeds.

    - A `tensorflow` job needs all its chiefs (or masters). Without a chief, the job needs worker 0,
      or all workers if the success policy is `ALL_WORKERS`.
    - A job of any other framework needs all replicas of the roles that are not services. A job that
      has only services needs all of them.
    - If the success policy is `LEADER`, a job of any framework needs only its chiefs (or masters).
    """
    is_tensorflow = spec.framework == "tensorflow"
    match spec.success_policy:
        case SuccessPolicy.LEADER:
            has_leader, deciding_workers = True, 1
        case SuccessPolicy.DEFAULT:
            has_leader, deciding_workers = is_tensorflow, 1
        case SuccessPolicy.ALL_WORKERS:
            has_leader, deciding_workers = is_tensorflow, len(slots)
        case _:
            assert_never(spec.success_policy)
    chiefs = [slot for slot in slots if slot.role.name in _CHIEFS]
    if has_leader and chiefs:
        return chiefs
    workers = [slot for slot in slots if slot.role.name == _WORKER]
    if is_tensorflow and workers:
        return workers[:deciding_workers]
    return [slot for slot in slots if not slot.role.service] or list(slots)

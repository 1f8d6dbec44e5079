"""Success: which replicas decide the success of a job, by framework."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.engine.slots import Slot
from windlass.model.exhaustive import assert_never
from windlass.model.job import JobSpec, SuccessPolicy

_CHIEFS = ("chief", "master")
_WORKER = "worker"


def deciders_done(spec: JobSpec, slots: Sequence[Slot]) -> list[Slot]:
    """Return the replicas that made the job succeed, leaders first; empty until it succeeds."""
    deciders = deciding_slots(spec, slots)
    if not deciders or not all(slot.is_done for slot in deciders):
        return []
    return sorted(deciders, key=lambda slot: slot.role.name not in _CHIEFS)


def success_message(slots: Sequence[Slot], deciders: Sequence[Slot]) -> str:
    """Explain why the job succeeded, given the deciding slots.

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
    """Return the replicas whose success makes the job succeed.

    - `tensorflow` with a chief (or master): all chiefs. Otherwise worker 0, or all workers if the
      success policy requires it.
    - Every other framework: all replicas of all roles that are not services. A job with only
      services succeeds when all of them do.
    - If the success policy requires it, the master (or chief) of any framework.
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

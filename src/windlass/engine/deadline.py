"""Time: how long a job has been active, and when its deadline and its time to live are up."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.job import CleanPolicy, JobSpec
from windlass.model.quantities import format_duration
from windlass.model.status import JobStatus, Phase, Replica


def has_room(spec: JobSpec, current: Sequence[Replica]) -> bool:
    """Whether a job that was let in has somewhere to run: from then on it is active.

    Elsewhere it is for others to say who waits: there it has once one of its current attempts has
    a machine. Of one that ended without any, nothing follows.

    >>> from windlass.model.job import ProcessCall, Role
    >>> from windlass.model.status import ReplicaId
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("x",))),), backend="kubernetes")
    >>> waiting = Replica(id=ReplicaId("main", 0, 1), phase=Phase.PENDING)
    >>> has_room(spec, [waiting])
    False
    """
    return spec.is_local or any(
        each.node or each.started is not None or each.phase is Phase.RUNNING for each in current
    )


def active_seconds(status: JobStatus, now: float) -> float:
    """How long a job has been active, leaving out the time it was suspended.

    >>> active_seconds(JobStatus(start_time=100.0, active_seconds=5.0), 110.0)
    15.0
    """
    if status.start_time is None:
        return status.active_seconds
    return status.active_seconds + max(now - status.start_time, 0.0)


def deadline_left(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Seconds until the job's deadline; none if it has none, 0 and less when it is up."""
    if spec.active_deadline is None:
        return None
    return spec.active_deadline - active_seconds(status, now)


def seconds_alone(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """How long an attempt may run if nobody looks after the job; none if for ever.

    What the clean policy leaves runs on when the job is done, of which its supervisor cannot know.
    """
    if spec.clean_policy is CleanPolicy.NONE:
        return None
    return deadline_left(spec, status, now)


def deadline_message(spec: JobSpec, replicas: Sequence[Replica]) -> str:
    """What there is to say when the deadline is up; of a job that never ran, what it waited for."""
    limit = format_duration(spec.active_deadline or 0.0)
    if any(each.started is not None for each in replicas):
        return f"ran longer than its deadline of {limit}"
    waits = next((each.message for each in replicas if each.message), "")
    return f"its deadline of {limit} was up before it began" + (f": {waits}" if waits else "")


def ttl_left(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Seconds until what is left of a finished job goes; none if it may stay."""
    if spec.ttl_after_finished is None or status.completion_time is None:
        return None
    return status.completion_time + spec.ttl_after_finished - now

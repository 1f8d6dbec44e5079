"""Computes how long a job was active, and how much time is left until its deadline and cleanup."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.model.job import CleanPolicy, JobSpec
from windlass.model.status import JobStatus, Phase, Replica
from windlass.model.text.quantities import format_duration


def has_capacity(spec: JobSpec, current: Sequence[Replica]) -> bool:
    """Return True if an admitted job has capacity, so that its active time counts.

    A job on the server's machine has capacity as soon as the job is admitted. A remote backend has
    its own scheduler. A job there has capacity once one of its current attempts has a machine.

    >>> from windlass.model.job import ProcessCall, Role
    >>> from windlass.model.status import ReplicaId
    >>> spec = JobSpec(roles=(Role(executable=ProcessCall(argv=("x",))),), backend="kubernetes")
    >>> waiting = Replica(id=ReplicaId("main", 0, 1), phase=Phase.PENDING)
    >>> has_capacity(spec, [waiting])
    False
    """
    return spec.capabilities.runs_on_server or any(
        replica.node or replica.started is not None or replica.phase is Phase.RUNNING
        for replica in current
    )


def active_seconds(status: JobStatus, now: float) -> float:
    """Return how many seconds a job was active, not counting the time while it was suspended.

    >>> active_seconds(JobStatus(start_time=100.0, active_seconds=5.0), 110.0)
    15.0
    """
    if status.start_time is None:
        return status.active_seconds
    return status.active_seconds + max(now - status.start_time, 0.0)


def deadline_left(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Return the seconds until the job's deadline, or None if the job has no deadline.

    The result is 0 or negative after the deadline.
    """
    if spec.active_deadline is None:
        return None
    return spec.active_deadline - active_seconds(status, now)


def seconds_alone(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Return how many seconds an attempt can run while no server reconciles the job.

    The supervisor of the attempt enforces this limit. Returns None if there is no limit. A job with
    the clean policy `NONE` has no limit, because its replicas may keep running after the job has
    finished, and a supervisor does not know whether the job has finished.
    """
    if spec.clean_policy is CleanPolicy.NONE:
        return None
    return deadline_left(spec, status, now)


def deadline_message(spec: JobSpec, replicas: Sequence[Replica]) -> str:
    """Describe a missed deadline. If the job never ran, say why the job waited."""
    limit = format_duration(spec.active_deadline or 0.0)
    if any(replica.started is not None for replica in replicas):
        return f"ran longer than its deadline of {limit}"
    waits = next((replica.message for replica in replicas if replica.message), "")
    return f"its deadline of {limit} was up before it began" + (f": {waits}" if waits else "")


def ttl_left(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Return the seconds until the replicas of a finished job are deleted.

    Returns None if the replicas are not deleted.
    """
    if spec.ttl_after_finished is None or status.completion_time is None:
        return None
    return status.completion_time + spec.ttl_after_finished - now

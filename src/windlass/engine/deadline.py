"""Time: how long a job has been active, and when its deadline and its time to live are up."""

from __future__ import annotations

from windlass.model.job import CleanPolicy, JobSpec
from windlass.model.quantities import format_duration
from windlass.model.status import JobStatus


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


def deadline_message(spec: JobSpec) -> str:
    """What there is to say when the deadline is up."""
    return f"ran longer than its deadline of {format_duration(spec.active_deadline or 0.0)}"


def ttl_left(spec: JobSpec, status: JobStatus, now: float) -> float | None:
    """Seconds until what is left of a finished job goes; none if it may stay."""
    if spec.ttl_after_finished is None or status.completion_time is None:
        return None
    return status.completion_time + spec.ttl_after_finished - now

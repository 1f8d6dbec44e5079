"""Cleaning: what becomes of the replicas of a job that is finished."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.engine import conditions
from windlass.engine.deadline import ttl_left
from windlass.engine.decision import Decision
from windlass.engine.slots import is_alive
from windlass.model.job import CleanPolicy, JobSpec
from windlass.model.status import ConditionType, Event, JobStatus, Replica


def clean(
    spec: JobSpec,
    status: JobStatus,
    replicas: Sequence[Replica],
    now: float,
    events: Sequence[Event] = (),
) -> Decision:
    """What is left to do for a finished job: its clean policy, then its time to live.

    The status says `settled` once nothing is left to do. Where ended replicas are to be deleted,
    a runtime may go on reporting them: whoever deleted them says so with `settle`. A job that is
    given a time to live when it was settled already has something left to do: to go when it is up.
    """
    left = ttl_left(spec, status, now)
    expired = left is not None and left <= 0
    if status.settled and left is not None and not expired:
        status = msgspec.structs.replace(status, settled=False)
    if expired or spec.clean_policy is CleanPolicy.ALL:
        delete = [each.id for each in replicas if is_alive(each) or not status.settled]
    elif spec.clean_policy is CleanPolicy.RUNNING or _was_cut_short(status):
        delete = [each.id for each in replicas if is_alive(each)]
    else:
        delete = []
    leaving = {each.id for each in replicas if each.deleting}
    asked = tuple(sorted(each for each in delete if each not in leaving))
    if not status.settled and not asked and not leaving and is_over(spec, status, replicas, now):
        status = msgspec.structs.replace(status, settled=True)
    waits = left is not None and left > 0
    return Decision(
        status=status, delete=asked, events=tuple(events), requeue_after=left if waits else None
    )


def _was_cut_short(status: JobStatus) -> bool:
    """Whether the job ended because it may not go on: what runs of it then ends in any case."""
    failed = status.condition(ConditionType.FAILED)
    reasons = (conditions.DEADLINE_REASON, conditions.BACKOFF_REASON, conditions.INVALID_REASON)
    return status.stop_requested or (failed is not None and failed.reason in reasons)


def settle(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float) -> JobStatus:
    """The status once every delete that `clean` asked for was carried out."""
    if status.settled or not is_over(spec, status, replicas, now):
        return status
    return msgspec.structs.replace(status, settled=True)


def is_over(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float) -> bool:
    """Whether a job is finished, nothing of it lives, and its time to live is up."""
    left = ttl_left(spec, status, now)
    return (
        status.is_finished
        and not any(is_alive(each) for each in replicas)
        and (left is None or left <= 0)
    )

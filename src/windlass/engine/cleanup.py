"""Decides which replicas of a finished job to delete, and when."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.engine import conditions
from windlass.engine.deadline import ttl_left
from windlass.engine.decision import Decision
from windlass.engine.slots import is_alive
from windlass.model.exhaustive import assert_never
from windlass.model.job import CleanPolicy, JobSpec
from windlass.model.status import ConditionType, Event, JobStatus, Replica, ReplicaId


def clean(
    spec: JobSpec,
    status: JobStatus,
    replicas: Sequence[Replica],
    now: float,
    events: Sequence[Event] = (),
) -> Decision:
    """Decide which replicas of a finished job to delete now, and when to decide again.

    The job's clean policy applies first. When the job's time to live is up, all replicas are
    deleted. The status becomes `settled` once no action remains. A runtime may still report ended
    replicas after their deletion, so the caller that deleted them calls `settle`. A settled job
    that is given a time to live becomes unsettled until that time is up.
    """
    left = ttl_left(spec, status, now)
    expired = left is not None and left <= 0
    if status.settled and left is not None and not expired:
        status = msgspec.structs.replace(status, settled=False)
    delete = _to_delete(CleanPolicy.ALL if expired else spec.clean_policy, status, replicas)
    leaving = {replica.id for replica in replicas if replica.deleting}
    to_delete = tuple(sorted(replica_id for replica_id in delete if replica_id not in leaving))
    if (
        not status.settled
        and not to_delete
        and not leaving
        and is_over(spec, status, replicas, now)
    ):
        status = msgspec.structs.replace(status, settled=True)
    waits = left is not None and left > 0
    return Decision(
        status=status, delete=to_delete, events=tuple(events), requeue_after=left if waits else None
    )


def _to_delete(
    policy: CleanPolicy, status: JobStatus, replicas: Sequence[Replica]
) -> list[ReplicaId]:
    alive = [replica.id for replica in replicas if is_alive(replica)]
    match policy:
        case CleanPolicy.ALL:
            return alive if status.settled else [replica.id for replica in replicas]
        case CleanPolicy.RUNNING:
            return alive
        case CleanPolicy.NONE:
            return alive if _was_cut_short(status) else []
        case _:
            return assert_never(policy)


def _was_cut_short(status: JobStatus) -> bool:
    """Return True if the job was stopped by a user, its deadline, a limit, or an invalid request.

    The running replicas of such a job are deleted under every clean policy.
    """
    failed = status.condition(ConditionType.FAILED)
    reasons = (conditions.DEADLINE_REASON, conditions.BACKOFF_REASON, conditions.INVALID_REASON)
    return status.stop_requested or (failed is not None and failed.reason in reasons)


def settle(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float) -> JobStatus:
    """Return the status after the caller made all deletions that `clean` requested.

    The status becomes `settled` if the job is over.
    """
    if status.settled or not is_over(spec, status, replicas, now):
        return status
    return msgspec.structs.replace(status, settled=True)


def is_over(spec: JobSpec, status: JobStatus, replicas: Sequence[Replica], now: float) -> bool:
    """Return True if a job is finished, no replica is alive, and no time to live remains."""
    left = ttl_left(spec, status, now)
    return (
        status.is_finished
        and not any(is_alive(replica) for replica in replicas)
        and (left is None or left <= 0)
    )

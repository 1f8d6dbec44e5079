"""Generator trials, which consist of other trials and have no processes of their own.

A generator is a function in the author's program that adds trials. Its generator trial runs until
the generator has reported its end and all added trials have ended. A generator trial's state
depends only on stored records and on whether the author's program is still connected.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from windlass.engine.conditions import COMPLETED_REASON, clear_condition, set_condition
from windlass.model.errors import Conflict
from windlass.model.job import GeneratorCall, JobSpec
from windlass.model.records import STOPPED_REASON, ErrorInfo, TrialRecord, TrialState
from windlass.model.requests import Built, StopTrial
from windlass.model.status import ConditionType, Event, EventKind, JobStatus
from windlass.server.services import Services

BUILDING_REASON = "Building"
BUILT_REASON = "Built"
RAISED_REASON = "GeneratorFailed"
LOST_REASON = "GeneratorLost"
CHILD_REASON = "TrialFailed"

_MOST_NAMED = 10
_LONGEST_TEXT = 100_000
_LOST = "the program that ran the generator ended before the generator was done"


def call_of(spec: JobSpec) -> GeneratorCall | None:
    """Return a job's generator call, or None if the job has no generator."""
    executable = spec.roles[0].executable
    return executable if isinstance(executable, GeneratorCall) else None


def first_status(now: float) -> tuple[JobStatus, Sequence[Event]]:
    """Return a generator trial's first status. Such a trial is running as soon as it is created."""
    status = JobStatus(admitted=True, start_time=now, last_reconcile_time=now)
    return set_condition(status, ConditionType.RUNNING, BUILDING_REASON, "", now), ()


async def built(services: Services, trial_id: int, outcome: Built) -> None:
    """Record that a generator has finished or raised an exception.

    Repeated calls have no effect.
    """
    record = await services.trials.record(trial_id)
    if call_of(record.spec) is None:
        raise Conflict(
            f"Trial {trial_id} ({record.name}) has no running generator.",
            hint="Only the program that runs a generator reports its end.",
        )
    error = outcome.error and ErrorInfo(
        type=outcome.error.type[:1000],
        message=outcome.error.message[:_LONGEST_TEXT],
        traceback=outcome.error.traceback[-_LONGEST_TEXT:],
    )
    judge = partial(judged, now=time.time(), built=error or True)
    await services.trials.judge(trial_id, judge)
    services.hub.publish(trial_id)


async def look_at(services: Services, trial_id: int) -> None:
    """Finish a generator trial if its trials have ended or the author's program has disappeared."""
    record = await services.trials.record(trial_id)
    call = call_of(record.spec)
    if call is None or record.state.is_final:
        return
    is_lost = not services.leases.may_be_there(record.experiment_id, call.holder)
    if await services.trials.judge(trial_id, partial(judged, now=time.time(), is_lost=is_lost)):
        services.hub.publish(trial_id)


async def stop(services: Services, record: TrialRecord, order: StopTrial) -> None:
    """Stop a generator trial and the trials that it added.

    The added trials are stopped even if the generator trial itself has already ended.
    """
    from windlass.server.operations.stop import stop_all

    try:
        await services.trials.request_stop(record.id, order)
        services.hub.publish(record.id)
    finally:  # also on a full disk, because these trials may be the ones that fill the disk
        await stop_all(services, await services.relations.children_going_on(record.id), order)
    await look_at(services, record.id)


def judged(
    status: JobStatus,
    children: Mapping[int, TrialState],
    *,
    now: float,
    built: ErrorInfo | bool = False,
    is_lost: bool = False,
) -> tuple[JobStatus, Sequence[Event], ErrorInfo | None]:
    """Return a generator trial's new status, its new events, and the generator's error.

    `children` contains the state of each trial that the generator added, by trial id. `built` is
    true or the generator's error if the generator has just ended. `is_lost` is true if the author's
    program has disappeared.

    >>> status, _ = first_status(1.0)
    >>> status, _, _ = judged(status, {7: TrialState.RUNNING}, now=2.0, built=True)
    >>> status.is_finished
    False
    >>> status, _, _ = judged(status, {7: TrialState.SUCCEEDED}, now=3.0)
    >>> status.holds(ConditionType.SUCCEEDED)
    True
    """
    events: list[Event] = []
    if status.is_finished:
        return status, (), None
    if isinstance(built, ErrorInfo) and not status.stop_requested:
        message = f"{built.type.rpartition('.')[2]}: {built.message}".rstrip(": ")[:1000]
        events.append(_event(now, RAISED_REASON, message, EventKind.WARNING))
        return _failed(status, RAISED_REASON, message, now), events, built
    if built and not status.holds(ConditionType.CREATED):
        number = f"{len(children)} {'trial' if len(children) == 1 else 'trials'}"
        events.append(_event(now, BUILT_REASON, f"its generator added {number}"))
        status = set_condition(status, ConditionType.CREATED, BUILT_REASON, "", now)
    is_built = status.holds(ConditionType.CREATED)
    if is_lost and not is_built and not status.stop_requested:
        events.append(_event(now, LOST_REASON, _LOST, EventKind.WARNING))
        return _failed(status, LOST_REASON, _LOST, now), events, None
    goes_on = any(not state.is_final for state in children.values())
    if goes_on or not (is_built or status.stop_requested):
        return status, events, None
    status, reason, message = _ended(status, children, now)
    kind = EventKind.WARNING if reason == CHILD_REASON else EventKind.NORMAL
    events.append(_event(now, reason, message, kind))
    return status, events, None


def _ended(
    status: JobStatus, children: Mapping[int, TrialState], now: float
) -> tuple[JobStatus, str, str]:
    """Return the final status of a generator trial whose trials have ended.

    The second and third element are the reason for this status and a message.
    """
    failed = [number for number, state in children.items() if state is TrialState.FAILED]
    stopped = [number for number, state in children.items() if state is TrialState.STOPPED]
    if status.stop_requested:
        reason, message = STOPPED_REASON, status.stop_reason or "stopped"
    elif failed:
        reason, message = CHILD_REASON, _of_all(failed, len(children), "failed")
    elif stopped:
        how = "was stopped" if len(stopped) == 1 else "were stopped"
        reason, message = STOPPED_REASON, _of_all(stopped, len(children), how)
    else:
        done = _done(status, now, COMPLETED_REASON)
        done = set_condition(done, ConditionType.SUCCEEDED, COMPLETED_REASON, "", now)
        return done, COMPLETED_REASON, ""
    return _failed(status, reason, message, now), reason, message


def _failed(status: JobStatus, reason: str, message: str, now: float) -> JobStatus:
    return set_condition(_done(status, now, reason), ConditionType.FAILED, reason, message, now)


def _done(status: JobStatus, now: float, reason: str) -> JobStatus:
    ended = clear_condition(status, ConditionType.RUNNING, reason, "", now)
    return msgspec.structs.replace(ended, completion_time=now, settled=True)


def _of_all(which: Sequence[int], total: int, how: str) -> str:
    named = ", ".join(map(str, which[:_MOST_NAMED])) + (", …" if len(which) > _MOST_NAMED else "")
    return f"{len(which)} of {total} {'trial' if total == 1 else 'trials'} {how}: {named}"


def _event(now: float, reason: str, message: str, kind: EventKind = EventKind.NORMAL) -> Event:
    return Event(time=now, kind=kind, reason=reason, message=message)

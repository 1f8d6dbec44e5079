"""Decides which ended replicas get another attempt, when, and whether the limit allows it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.engine.first_failure import first_to_end, may_not_be_first
from windlass.engine.messages import (
    VANISHED,
    describe,
    describe_end,
    describe_exit,
    how_often,
    is_alone,
)
from windlass.engine.restart_policy import Verdict, slot_verdict
from windlass.engine.slots import Slot
from windlass.model.job import JobSpec
from windlass.model.status import JobStatus

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
LONG_ENOUGH = 600.0  # after a run of this many seconds, the delays start over
EARLY = 10.0  # a failure within this many seconds of the start is probably deterministic


def restart_delay(delays: int) -> float:
    """Return the seconds before a restart, which double with each of `delays` earlier restarts.

    >>> [restart_delay(n) for n in (0, 1, 2, 8, 9, 1_000_000)]
    [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    """
    return min(FIRST_DELAY * 2.0 ** min(delays, 32), LONGEST_DELAY)


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """The restarts that one reconciliation requests."""

    slots: tuple[Slot, ...]  # all slots of the job, including the requested restarts
    ended: tuple[Slot, ...]  # the slots that cause the restarts, in the order of their ends
    count: int  # the number of restarts that count toward the limit


def plan_restarts(spec: JobSpec, slots: Sequence[Slot], now: float) -> Restarts | None:
    """Plan which replicas restart, and when. Return None if no replica restarts.

    If the job restarts as a whole, ends that are observed together count as one restart, because
    the death of one replica usually causes the deaths of the others.
    """
    failed = [slot for slot in slots if slot_verdict(slot) is Verdict.RESTART]
    if not failed:
        return None
    ended = tuple(first_to_end(failed))
    if not spec.restarts_together:
        causes = {slot.id for slot in ended}
        after = tuple(
            _restart(slot, _delays(slot, now), now) if slot.id in causes else slot for slot in slots
        )
        return Restarts(slots=after, ended=ended, count=len(ended))
    first = ended[0]
    exception = _exception(first)
    # The whole job restarts, so the delay doubles no matter which replica caused the last restart.
    delays = max(_delays(slot, now) for slot in slots)
    after = tuple(
        _restart(slot, delays, now)
        if slot is first
        else slot.over(now + restart_delay(delays)).with_history(last_exception=exception)
        for slot in slots
    )
    return Restarts(slots=after, ended=ended[:1], count=1)


def repeated_failure(spec: JobSpec, restarts: Restarts) -> Slot | None:
    """Return a slot that failed early with the same exception as its previous attempt.

    Another attempt would most likely fail in the same way. Returns None if there is no such slot or
    if the job does not stop on a repeated failure.
    """
    if not spec.stop_on_repeat:
        return None
    return next((slot for slot in restarts.ended if _is_repeated(slot)), None)


def repeat_message(spec: JobSpec, slot: Slot) -> str:
    """Explain that the job fails because an attempt repeated the previous attempt's exception."""
    what = describe_slot_end(spec, slot)
    return f"{what}; {_exception(slot)}, as in the attempt before, so it is not restarted again"


def exceeds_limit(spec: JobSpec, status: JobStatus, restarts: Restarts) -> bool:
    """Return True if these restarts would exceed the job's restart limit."""
    return status.restarts + restarts.count > spec.backoff_limit


def is_cause_open(
    spec: JobSpec, status: JobStatus, restarts: Restarts, slots: Sequence[Slot], now: float
) -> bool:
    """Return True if the engine must wait to learn which replica caused the restarts.

    The cause matters only if the job restarts as a whole or exceeds its restart limit. As long as
    some other replica's exit is not reported, that replica may turn out to be the cause.
    """
    is_last = exceeds_limit(spec, status, restarts) or repeated_failure(spec, restarts) is not None
    names_one = spec.restarts_together or is_last
    return names_one and may_not_be_first(restarts.ended[0], slots, now)


def one_too_many(spec: JobSpec, status: JobStatus, restarts: Restarts) -> Slot:
    """Return the slot whose end exceeded the job's restart limit."""
    left = max(spec.backoff_limit - status.restarts, 0)
    return restarts.ended[min(left, len(restarts.ended) - 1)]


def limit_message(spec: JobSpec, last: Slot) -> str:
    """Explain that the job fails because the end of the slot `last` exceeded the restart limit."""
    limit = spec.backoff_limit
    what = describe_slot_end(spec, last)
    if limit == 0:
        return f"{what}; no restart is allowed"
    if is_alone(spec):
        return f"{what}; restarted {how_often(limit)}, which is the limit"
    return f"{what}; the limit of {limit} restart{'' if limit == 1 else 's'} is used up"


def describe_slot_end(spec: JobSpec, slot: Slot) -> str:
    """Describe how a slot's attempt ended. Name the replica if the job has several."""
    current = slot.current
    if slot.has_vanished:
        end = VANISHED
    else:
        end = (
            describe_exit(slot.history.last_exit_code) if current is None else describe_end(current)
        )
    return describe(spec, slot.id, end)


def _restart(slot: Slot, delays: int, now: float) -> Slot:
    return slot.with_history(
        restarts=slot.history.restarts + 1,
        delays=delays + 1,
        last_exception=_exception(slot),
        not_before=now + restart_delay(delays),
        phase=None,
    )


def _is_repeated(slot: Slot) -> bool:
    current, exception = slot.current, _exception(slot)
    if current is None or not exception or exception != slot.history.last_exception:
        return False
    if current.started is None or current.ended is None or not current.exit_code:
        return False
    return current.exit_code < 128 and current.ended - current.started < EARLY


def _exception(slot: Slot) -> str:
    return "" if slot.current is None else slot.current.exception


def _delays(slot: Slot, now: float) -> int:
    """Return how many restart delays a replica has had since one of its attempts last ran long."""
    current = slot.current
    if current is not None and current.started is not None:
        ended = now if current.ended is None else current.ended
        if ended - current.started >= LONG_ENOUGH:
            return 0
    return slot.history.delays

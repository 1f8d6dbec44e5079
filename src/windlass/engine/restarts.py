"""Restarts: what an end means under a policy, when the next attempt may start, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from windlass.engine.messages import about, describe_end, describe_exit, times
from windlass.engine.slots import Slot
from windlass.model.job import JobSpec, RestartPolicy, RestartScope
from windlass.model.status import JobStatus, Phase

FIRST_DELAY = 1.0
LONGEST_DELAY = 300.0
LONG_ENOUGH = 600.0  # having run so long, a replica's next delay is the first one again


class Verdict(Enum):
    """What an attempt that ended means."""

    DONE = "done"
    RESTART = "restart"
    FAILED = "failed"


def exit_verdict(policy: RestartPolicy, exit_code: int | None) -> Verdict:
    """What a finished attempt means under a restart policy.

    >>> exit_verdict(RestartPolicy.EXIT_CODE, 137).name
    'RESTART'
    >>> exit_verdict(RestartPolicy.EXIT_CODE, 1).name
    'FAILED'
    """
    if policy is RestartPolicy.ALWAYS:
        return Verdict.RESTART
    if exit_code == 0:
        return Verdict.DONE
    if policy is RestartPolicy.NEVER:
        return Verdict.FAILED
    if policy is RestartPolicy.ON_FAILURE:
        return Verdict.RESTART
    # No exit code: the machine or the pod went away. That is never the program's fault.
    retryable = exit_code is None or exit_code >= 128
    return Verdict.RESTART if retryable else Verdict.FAILED


def slot_verdict(slot: Slot) -> Verdict | None:
    """What became of a slot's attempt; none while it goes on.

    A replica that vanished was taken away from outside: it comes back whatever its policy.
    """
    if slot.has_vanished:
        return Verdict.RESTART
    phase = slot.history.phase
    if slot.awaits_next or phase is None or not phase.is_final:
        return None
    exit_code = slot.history.last_exit_code
    if phase is Phase.FAILED and exit_code == 0:
        exit_code = None  # it failed, whatever its program said: evicted, say
    return exit_verdict(slot.role.restart_policy, exit_code)


def restart_delay(delays: int) -> float:
    """Seconds before a restart, given how many came before it since a long run.

    >>> [restart_delay(n) for n in (0, 1, 2, 8, 9, 1_000_000)]
    [1.0, 2.0, 4.0, 256.0, 300.0, 300.0]
    """
    return min(FIRST_DELAY * 2.0 ** min(delays, 32), LONGEST_DELAY)


class Restarts(msgspec.Struct, frozen=True, kw_only=True):
    """The restarts that one look at a job asks for."""

    slots: tuple[Slot, ...]  # all slots of the job, after
    ended: tuple[Slot, ...]  # those whose ends are the cause, before
    count: int


def plan_restarts(spec: JobSpec, slots: Sequence[Slot], now: float) -> Restarts | None:
    """Who starts again, and when; none if nobody does.

    With the scope `job`, ends seen together are one restart of all: when one peer dies the
    others die of it, and that is one misfortune.
    """
    ended = tuple(slot for slot in slots if slot_verdict(slot) is Verdict.RESTART)
    if not ended:
        return None
    if spec.restart_scope is RestartScope.REPLICA:
        causes = {slot.id for slot in ended}
        after = tuple(_restart(slot, now) if slot.id in causes else slot for slot in slots)
        return Restarts(slots=after, ended=ended, count=len(ended))
    first = ended[0]
    due = max(_next_start(slot, now)[1] for slot in ended)
    after = tuple(
        _restart(slot, now).with_history(not_before=due) if slot is first else slot.over(due)
        for slot in slots
    )
    return Restarts(slots=after, ended=ended[:1], count=1)


def exceeds_limit(spec: JobSpec, status: JobStatus, restarts: Restarts) -> bool:
    """Whether these restarts would be more than the job may have."""
    return status.restarts + restarts.count > spec.backoff_limit


def limit_message(spec: JobSpec, status: JobStatus, restarts: Restarts) -> str:
    """Why the job fails: the end that was one too many, and how many restarts it had."""
    left = max(spec.backoff_limit - status.restarts, 0)
    last = describe_slot_end(spec, restarts.ended[min(left, len(restarts.ended) - 1)])
    if spec.backoff_limit == 0:
        return f"{last}; it may not be restarted"
    return f"{last}; it was restarted {times(spec.backoff_limit, 'time')}, which is the limit"


def describe_slot_end(spec: JobSpec, slot: Slot) -> str:
    """How a slot's attempt ended, naming it where there could be doubt."""
    if slot.has_vanished:
        return about(spec, slot.id, "it vanished")
    current = slot.current
    what = describe_exit(slot.history.last_exit_code)
    return about(spec, slot.id, what if current is None else describe_end(current))


def _restart(slot: Slot, now: float) -> Slot:
    delays, due = _next_start(slot, now)
    return slot.with_history(
        restarts=slot.history.restarts + 1, delays=delays, not_before=due, phase=None
    )


def _next_start(slot: Slot, now: float) -> tuple[int, float]:
    current = slot.current
    delays = slot.history.delays
    if current is not None and current.started is not None:
        ended = now if current.ended is None else current.ended
        if ended - current.started >= LONG_ENOUGH:
            delays = 0
    return delays + 1, now + restart_delay(delays)

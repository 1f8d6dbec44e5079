"""The first failure: the one of several observed ends that caused the others.

The cause is the end that came first. A replica that Windlass stopped is never the cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from windlass.engine.restart_policy import Verdict, slot_verdict
from windlass.engine.slots import STOPPED_BY_US, Slot, is_alive
from windlass.model.job import JobSpec, RestartPolicy
from windlass.model.status import GIVEN_UP

_LONGEST_WAY_OUT = 20.0  # for what a program that has ended left behind
_LONGEST_NEWS = 3.0  # how long the end of a replica on another machine may take to be told
_LONGEST_LEAVE = 600.0  # how long one that was told to go may take to be gone


def first_to_end(slots: Iterable[Slot]) -> list[Slot]:
    """Return slots in the order in which they ended; slots with an unknown end come last.

    What ended at the same time, or at an unknown one, stays in its declared order.
    """
    return sorted(slots, key=lambda slot: (_was_stopped(slot), _ended(slot)))


def failed_for_good(spec: JobSpec, slots: Sequence[Slot]) -> Slot | None:
    """The replica whose failure is the end of the job, if one failed for good.

    With the scope `job` a peer that did not end before one that may start again died of that one,
    and starts again with all: whether both are seen in one look or in two must not matter. Where
    times are told in whole seconds the two may be the same, and of one that is lost there is none.
    """
    failed = [slot for slot in slots if slot_verdict(slot) is Verdict.FAILED]
    if not failed:
        return None
    first = first_to_end(failed)[0]
    if spec.restarts_together and _died_of_another(first, slots):
        return None
    return first


def report_delay(spec: JobSpec, slots: Sequence[Slot]) -> float:
    """Return how long to wait for reports of peers before a failure is judged.

    With the scope `job` that is any peer that somebody else told to go: once it is gone all start
    again. And for a moment any that seems to live and might start again: its machine may tell of
    its end after this one told of what came of it.
    """
    if spec.restarts_together and any(_is_taken_away(slot) for slot in slots):
        return _LONGEST_LEAVE
    if any(_is_going(slot) for slot in slots):
        return _LONGEST_WAY_OUT
    together = spec.restarts_together
    return _LONGEST_NEWS if together and any(_may_be_retried(slot) for slot in slots) else 0.0


def may_not_be_first(slot: Slot, slots: Iterable[Slot], now: float) -> bool:
    """Whether another has just ended, too, and may turn out to have done so before."""
    is_recent = abs(now - _ended(slot)) < _LONGEST_WAY_OUT
    return is_recent and any(_is_going(other) for other in slots)


def _died_of_another(failed: Slot, slots: Iterable[Slot]) -> bool:
    """Whether one that starts again ended no later, or nobody can tell when."""
    when = _ended(failed)
    causes = [
        _ended(slot)
        for slot in slots
        if slot_verdict(slot) is Verdict.RESTART and not _was_stopped(slot)
    ]
    return when < math.inf and any(ended <= when or ended == math.inf for ended in causes)


def _is_taken_away(slot: Slot) -> bool:
    """Whether somebody else told it to go: what it left with says nothing, and it comes back."""
    current = slot.current
    is_told = current is not None and current.deleting
    return is_told and not slot.awaits_next and not slot.is_done


def _may_be_retried(slot: Slot) -> bool:
    """Whether it seems to live, and its end might be one after which all start again."""
    current = slot.current
    seems_alive = current is not None and is_alive(current) and not current.deleting
    return seems_alive and slot.role.restart_policy is not RestartPolicy.NEVER


def _ended(slot: Slot) -> float:
    current = slot.current
    return math.inf if current is None or current.ended is None else current.ended


def _is_going(slot: Slot) -> bool:
    """Whether its program has ended by itself, and how is still to be told."""
    current = slot.current
    return (
        current is not None
        and is_alive(current)
        and not current.deleting
        and current.ended is not None
    )


def _was_stopped(slot: Slot) -> bool:
    current = slot.current
    return current is not None and current.reason in (STOPPED_BY_US, GIVEN_UP)

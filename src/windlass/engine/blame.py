"""Blame: of several ends that are seen together, whose was the cause of the others.

It is the one that came first. Whoever was stopped by us died of what had happened before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from windlass.engine.slots import STOPPED_BY_US, Slot, is_alive
from windlass.engine.verdicts import Verdict, slot_verdict
from windlass.model.job import JobSpec, RestartScope
from windlass.model.status import GIVEN_UP

_LONGEST_WAY_OUT = 20.0  # for what a program that has ended left behind


def first_to_end(slots: Iterable[Slot]) -> list[Slot]:
    """Slots in the order in which they ended; those of which nobody can tell are the last.

    What ended at the same time, or at an unknown one, stays in its declared order.
    """
    return sorted(slots, key=lambda slot: (_was_stopped(slot), _ended(slot)))


def failed_for_good(spec: JobSpec, slots: Sequence[Slot], now: float) -> Slot | None:
    """The replica whose failure is the end of the job, if one failed for good.

    With the scope `job` a peer that ended after one that may start again died of that one, and
    starts again with all: whether both are seen in one look or in two must not matter.

    None is judged while another has ended too and it is not known yet how and when: that is told
    once all that came of it is gone.
    """
    failed = [slot for slot in slots if slot_verdict(slot) is Verdict.FAILED]
    if not failed:
        return None
    first = first_to_end(failed)[0]
    if may_not_be_first(first, slots, now):
        return None
    if spec.restart_scope is RestartScope.JOB:
        retried = [slot for slot in slots if slot_verdict(slot) is Verdict.RESTART]
        causes = [slot for slot in retried if not _was_stopped(slot)]
        if any(_ended(slot) < _ended(first) < math.inf for slot in causes):
            return None
    return first


def may_not_be_first(slot: Slot, slots: Iterable[Slot], now: float) -> bool:
    """Whether another has just ended, too, and may turn out to have done so before."""
    is_recent = abs(now - _ended(slot)) < _LONGEST_WAY_OUT
    return is_recent and any(_is_going(each) for each in slots)


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

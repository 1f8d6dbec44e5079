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

_LONGEST_WAY_OUT = 20.0  # seconds to clean up after a program that has ended
_LONGEST_NEWS = 3.0  # seconds until the end of a replica on another machine is reported
_LONGEST_LEAVE = 600.0  # seconds until a deleted replica has ended


def first_to_end(slots: Iterable[Slot]) -> list[Slot]:
    """Return slots in the order in which they ended; slots with an unknown end come last.

    Slots with equal or unknown times stay in their declared order.
    """
    return sorted(slots, key=lambda slot: (_was_stopped(slot), _ended(slot)))


def failed_for_good(spec: JobSpec, slots: Sequence[Slot]) -> Slot | None:
    """Return the replica whose failure ends the job, if one failed for good.

    With the scope `job`, a peer that did not end before a restartable replica is assumed to have
    died because of it, and restarts with all others. The result is the same whether one or two
    reconciliations observe the ends. Two times can be equal if the backend reports whole seconds,
    and a lost replica has no time.
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

    With the scope `job` the wait covers any peer that another party deleted: all replicas restart
    once it has ended. It also covers, briefly, any peer that seems alive and might restart: its
    machine may report its end after this machine reported the consequence.
    """
    if spec.restarts_together and any(_is_taken_away(slot) for slot in slots):
        return _LONGEST_LEAVE
    if any(_is_going(slot) for slot in slots):
        return _LONGEST_WAY_OUT
    together = spec.restarts_together
    return _LONGEST_NEWS if together and any(_may_be_retried(slot) for slot in slots) else 0.0


def may_not_be_first(slot: Slot, slots: Iterable[Slot], now: float) -> bool:
    """Return True if another replica has just ended and may turn out to have ended earlier."""
    is_recent = abs(now - _ended(slot)) < _LONGEST_WAY_OUT
    return is_recent and any(_is_going(other) for other in slots)


def _died_of_another(failed: Slot, slots: Iterable[Slot]) -> bool:
    """Return True if a restarting replica ended no later than `failed`, or at an unknown time."""
    when = _ended(failed)
    causes = [
        _ended(slot)
        for slot in slots
        if slot_verdict(slot) is Verdict.RESTART and not _was_stopped(slot)
    ]
    return when < math.inf and any(ended <= when or ended == math.inf for ended in causes)


def _is_taken_away(slot: Slot) -> bool:
    """Return True if another party deleted the replica: it restarts regardless of its exit."""
    current = slot.current
    is_deleting = current is not None and current.deleting
    return is_deleting and not slot.awaits_next and not slot.is_done


def _may_be_retried(slot: Slot) -> bool:
    """Return True if the replica seems alive and its end might restart all replicas."""
    current = slot.current
    seems_alive = current is not None and is_alive(current) and not current.deleting
    return seems_alive and slot.role.restart_policy is not RestartPolicy.NEVER


def _ended(slot: Slot) -> float:
    current = slot.current
    return math.inf if current is None or current.ended is None else current.ended


def _is_going(slot: Slot) -> bool:
    """Return True if the program has ended by itself and its exit is not yet reported."""
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

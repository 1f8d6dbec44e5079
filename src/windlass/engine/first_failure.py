"""Finds the replica whose end caused a job's other replicas to end.

The replica that ended first is the cause. A replica that Windlass stopped is never the cause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from windlass.engine.restart_policy import Verdict, slot_verdict
from windlass.engine.slots import STOPPED_BY_US, Slot, is_alive
from windlass.model.job import JobSpec, RestartPolicy
from windlass.model.status import GIVEN_UP

_LONGEST_EXIT_REPORT = 20.0  # seconds from a program's end until its exit is reported
_LONGEST_REMOTE_REPORT = 3.0  # seconds until the end of a replica on another machine is reported
_LONGEST_DELETION = 600.0  # seconds that a deleted replica may take to end


def first_to_end(slots: Iterable[Slot]) -> list[Slot]:
    """Return slots in the order in which their attempts ended.

    Slots whose end time is unknown come next, and slots that Windlass stopped come last. Slots with
    equal times stay in their declared order.
    """
    return sorted(slots, key=lambda slot: (_was_stopped(slot), _ended(slot)))


def failed_for_good(spec: JobSpec, slots: Sequence[Slot]) -> Slot | None:
    """Return the replica whose failure ends the job, or None if the job can go on.

    Only replicas that are not permitted to restart can end the job. In a job that restarts as a
    whole, another replica can have caused their failure. The job then restarts if that replica is
    permitted to restart, and ended before the first of them, at the same time (some backends report
    whole seconds), or at an unknown time because it was lost. The result does not depend on whether
    one or two reconciliations observe the ends.
    """
    failed = [slot for slot in slots if slot_verdict(slot) is Verdict.FAILED]
    if not failed:
        return None
    first = first_to_end(failed)[0]
    if spec.restarts_together and _died_of_another(first, slots):
        return None
    return first


def report_delay(spec: JobSpec, slots: Sequence[Slot]) -> float:
    """Return how many seconds to wait for other replicas to end after a replica failed.

    Another replica may have ended first and caused the failure. If the job restarts as a whole, the
    wait is long while a replica is being deleted from outside, because the end of that replica
    restarts the job. The wait is short if some other replica seems alive, because its machine may
    report the cause after this machine has reported the consequence.
    """
    if spec.restarts_together and any(_is_deleted_from_outside(slot) for slot in slots):
        return _LONGEST_DELETION
    if any(_has_unreported_exit(slot) for slot in slots):
        return _LONGEST_EXIT_REPORT
    together = spec.restarts_together
    waits = together and any(_may_be_retried(slot) for slot in slots)
    return _LONGEST_REMOTE_REPORT if waits else 0.0


def may_not_be_first(slot: Slot, slots: Iterable[Slot], now: float) -> bool:
    """Return True if a replica whose exit is not reported yet may have ended before `slot`."""
    is_recent = abs(now - _ended(slot)) < _LONGEST_EXIT_REPORT
    return is_recent and any(_has_unreported_exit(other) for other in slots)


def _died_of_another(failed: Slot, slots: Iterable[Slot]) -> bool:
    """Return True if a replica that may restart ended before or together with `failed`.

    A replica whose end time is unknown counts as having ended before `failed`.
    """
    when = _ended(failed)
    causes = [
        _ended(slot)
        for slot in slots
        if slot_verdict(slot) is Verdict.RESTART and not _was_stopped(slot)
    ]
    return when < math.inf and any(ended <= when or ended == math.inf for ended in causes)


def _is_deleted_from_outside(slot: Slot) -> bool:
    """Return True if another program deleted the replica.

    Such a replica restarts after any exit code.
    """
    current = slot.current
    is_deleting = current is not None and current.deleting
    return is_deleting and not slot.awaits_next and not slot.is_done


def _may_be_retried(slot: Slot) -> bool:
    """Return True if the replica seems alive and would be restarted after its end."""
    current = slot.current
    seems_alive = current is not None and is_alive(current) and not current.deleting
    return seems_alive and slot.role.restart_policy is not RestartPolicy.NEVER


def _ended(slot: Slot) -> float:
    current = slot.current
    return math.inf if current is None or current.ended is None else current.ended


def _has_unreported_exit(slot: Slot) -> bool:
    """Return True if the program has ended by itself but its exit code is not reported yet."""
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

"""Verdicts: the meaning of an attempt's end under the restart policy of its role."""

from __future__ import annotations

from enum import Enum

from windlass.engine.slots import Slot
from windlass.model.exhaustive import assert_never
from windlass.model.job import RestartPolicy
from windlass.model.status import Phase


class Verdict(Enum):
    """The consequence of an ended attempt."""

    DONE = "done"
    RESTART = "restart"
    FAILED = "failed"


def exit_verdict(policy: RestartPolicy, exit_code: int | None) -> Verdict:
    """Return the consequence of a finished attempt under a restart policy.

    >>> exit_verdict(RestartPolicy.EXIT_CODE, 137).name
    'RESTART'
    >>> exit_verdict(RestartPolicy.EXIT_CODE, 1).name
    'FAILED'
    """
    if exit_code == 0 and policy is not RestartPolicy.ALWAYS:
        return Verdict.DONE
    match policy:
        case RestartPolicy.ALWAYS | RestartPolicy.ON_FAILURE:
            return Verdict.RESTART
        case RestartPolicy.NEVER:
            return Verdict.FAILED
        case RestartPolicy.EXIT_CODE:
            # Without an exit code the machine or the pod was lost: the program did not fail.
            is_retryable = exit_code is None or exit_code >= 128
            return Verdict.RESTART if is_retryable else Verdict.FAILED
        case _:
            return assert_never(policy)


def slot_verdict(slot: Slot) -> Verdict | None:
    """Return the consequence of a slot's attempt; None while it continues.

    A replica that vanished was removed from outside, so it restarts under every policy.
    """
    if slot.has_vanished:
        return Verdict.RESTART
    phase = slot.history.phase
    if slot.awaits_next or phase is None or not phase.is_final:
        return None
    exit_code = slot.history.last_exit_code
    if phase is Phase.FAILED and exit_code == 0:
        exit_code = None  # it failed regardless of its exit code, for example by eviction
    return exit_verdict(slot.role.restart_policy, exit_code)

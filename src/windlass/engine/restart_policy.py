"""Applies a role's restart policy: decides whether an ended attempt is done, restarts or fails."""

from __future__ import annotations

from enum import Enum

from windlass.engine.slots import Slot
from windlass.model.exhaustive import assert_never
from windlass.model.job import RestartPolicy
from windlass.model.status import Phase


class Verdict(Enum):
    """The verdict about an ended attempt: it is done, it is restarted, or it failed for good."""

    DONE = "done"
    RESTART = "restart"
    FAILED = "failed"


def exit_verdict(policy: RestartPolicy, exit_code: int | None) -> Verdict:
    """Return whether an attempt with this exit code is done, restarts, or has failed for good.

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
            # Without an exit code, the machine or the pod was lost. The program did not fail.
            is_retryable = exit_code is None or exit_code >= 128
            return Verdict.RESTART if is_retryable else Verdict.FAILED
        case _:
            return assert_never(policy)


def slot_verdict(slot: Slot) -> Verdict | None:
    """Return whether a slot's ended attempt is done, restarts, or has failed for good.

    Returns None while the attempt continues. A replica that vanished restarts under every policy,
    because another program removed the replica.
    """
    if slot.has_vanished:
        return Verdict.RESTART
    phase = slot.history.phase
    if slot.awaits_next or phase is None or not phase.is_final:
        return None
    exit_code = slot.history.last_exit_code
    if phase is Phase.FAILED and exit_code == 0:
        exit_code = None  # the attempt failed although the program exited with 0: it was evicted
    return exit_verdict(slot.role.restart_policy, exit_code)

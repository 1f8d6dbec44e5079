"""Linux features beyond POSIX that keep a process tree together. No effect elsewhere."""

from __future__ import annotations

import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Become the parent of descendants whose own parent ends; whether that is so now."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> bool:
    """Ask for a signal when the parent of this process ends; whether it will be sent."""
    return _prctl(_PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # late: it costs more than all other imports of a supervisor

    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False

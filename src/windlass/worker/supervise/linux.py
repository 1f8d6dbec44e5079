"""Linux features beyond POSIX that keep a process tree together. No effect elsewhere."""

from __future__ import annotations

import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Adopt orphaned descendants of this process, and return whether that works here."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent(signal_number: int) -> bool:
    """Request a signal for the end of the parent process, and return whether that works here."""
    return _prctl(_PR_SET_PDEATHSIG, signal_number)


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    import ctypes  # imported late: slower than all other imports of a supervisor

    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False

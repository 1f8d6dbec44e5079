"""Clean exit of processes that trained together: PyTorch can abort a process after its work.

A Gloo thread that releases its last tensors acquires Python's lock. If it does so while Python is
exiting, the process is aborted (`terminate called without an active exception`), and a successful
trial fails. Destroying the process group first avoids that. Trainers that create the group for
their user never destroy it.
"""

from __future__ import annotations

import atexit
import sys
import time

_LETTING_GO = 0.5  # seconds: a finished thread needs only microseconds, and a core


def part_at_exit() -> None:
    """Destroy the process group when this process exits without an exception."""
    atexit.unregister(_part)
    atexit.register(_part)


def _part() -> None:
    # After an exception, an operation may be in progress that other processes never join.
    # Destroying the group would wait for them and hide the failure of this process meanwhile.
    if hasattr(sys, "last_value"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        # An existing model keeps the group alive, and then PyTorch does not wait for its threads.
        time.sleep(_LETTING_GO)

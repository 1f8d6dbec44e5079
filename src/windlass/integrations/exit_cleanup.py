"""Keeps PyTorch from aborting a process that has finished distributed training.

A thread in the Gloo backend needs Python's global lock to release its last tensors. If the thread
requests the lock while Python is exiting, the process is aborted with the message `terminate called
without an active exception`, and a successful trial fails. To avoid this, the process group must be
destroyed before Python exits. Trainers that create a process group never destroy it.
"""

from __future__ import annotations

import atexit
import sys
import time

_LETTING_GO = 0.5  # seconds; a thread needs only microseconds to finish


def part_at_exit() -> None:
    """Destroy the process group when this process exits, except after an uncaught exception."""
    atexit.unregister(_part)
    atexit.register(_part)


def _part() -> None:
    # After an exception, an operation may be waiting for processes that will never join it.
    # Destroying the group would wait for them, too, and hide this process's failure.
    if hasattr(sys, "last_value"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        # If a model still exists, it keeps the group alive, and PyTorch does not wait for its
        # threads.
        time.sleep(_LETTING_GO)

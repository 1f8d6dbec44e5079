"""How processes that trained together part: PyTorch can abort one whose work is done.

A thread of Gloo that lets go of its last tensors asks for Python's lock. Does it ask while Python
is ending, the process is aborted (`terminate called without an active exception`), and a trial that
has succeeded has failed. Whoever destroys the process group before is spared that. Trainers that
make the group for their user leave it to nobody.
"""

from __future__ import annotations

import atexit
import sys
import time

_LETTING_GO = 0.5  # seconds: a thread that has done its work needs microseconds, and a core


def part_at_exit() -> None:
    """Destroy the process group when this process ends well, if there is one by then."""
    atexit.unregister(_part)
    atexit.register(_part)


def _part() -> None:
    # After an exception an operation may be under way that others never join: to part would wait
    # for them, and nobody would see meanwhile that this process has failed.
    if hasattr(sys, "last_value"):
        return
    torch = sys.modules.get("torch")
    if torch is None or not torch.distributed.is_available():
        return
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
        # A model that is still there keeps the group, and its threads are then not waited for.
        time.sleep(_LETTING_GO)

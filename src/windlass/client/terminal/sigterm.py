"""Lets SIGTERM act like Ctrl-C while a program waits for a trial.

Without this, `timeout 300 windlass run ...` would end the command, but not the trial.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

CTRL_C = "Ctrl-C"
SIGTERM = "SIGTERM"


class Interruption:
    """Records which signal interrupted a wait."""

    reason = CTRL_C

    @property
    def again(self) -> str:
        """Text that explains the effect of a second signal."""
        if self.reason == CTRL_C:
            return "Ctrl-C again leaves without waiting"
        return f"a second {self.reason} leaves without waiting"


@contextmanager
def sigterm_interrupts() -> Iterator[Interruption]:
    """Let SIGTERM raise KeyboardInterrupt in the `with` block and end the program afterwards.

    SIGTERM keeps its usual effect if the program handles SIGTERM itself, waits in another thread,
    or is itself a trial. For a trial, SIGTERM may only mean that the trial is suspended.
    """
    interruption = Interruption()
    is_default = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    is_trial = "WINDLASS_TRIAL_ID" in os.environ and "WINDLASS_EXTERNAL" not in os.environ
    if is_trial or not is_default or threading.current_thread() is not threading.main_thread():
        yield interruption
        return

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        interruption.reason = SIGTERM
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield interruption
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if interruption.reason == SIGTERM:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
            os.kill(os.getpid(), signal.SIGTERM)

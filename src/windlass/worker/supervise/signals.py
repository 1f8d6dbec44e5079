"""Signals as events: each signal makes a file descriptor readable."""

from __future__ import annotations

import os
import signal


class SignalPipe:
    """Receives SIGTERM and SIGCHLD as events, and ignores the signals of a terminal."""

    def __init__(self) -> None:
        self._read_end, write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, _note)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    def fileno(self) -> int:
        return self._read_end

    def drain(self) -> set[int]:
        """Return the signals since the last call."""
        came = b""
        try:
            while chunk := os.read(self._read_end, 512):
                came += chunk
        except BlockingIOError:
            pass
        return set(came)


def reset_for_exec() -> None:
    """Restore the default signal handlers in a child before it executes another program."""
    signal.set_wakeup_fd(-1)
    taken = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP)
    for number in (*taken, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _note(_number: int, _frame: object) -> None:
    """Do nothing: Python writes the signal to the pipe only if a handler exists."""

"""Turns signals into events. Each signal makes a file descriptor readable."""

from __future__ import annotations

import os
import signal


class SignalPipe:
    """Reports SIGTERM and SIGCHLD as events, and ignores signals sent by a terminal."""

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
        """Return the signals that have arrived since the last call."""
        came = b""
        try:
            while chunk := os.read(self._read_end, 512):
                came += chunk
        except BlockingIOError:
            pass
        return set(came)


def reset_for_exec() -> None:
    """In a child process, restore the default signal handlers before executing a program."""
    signal.set_wakeup_fd(-1)
    taken = (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP)
    for number in (*taken, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _note(_number: int, _frame: object) -> None:
    """Do nothing.

    This handler is necessary, because Python reports a signal through the wakeup pipe only if the
    signal has a handler.
    """

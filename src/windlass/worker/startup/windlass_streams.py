"""Preserves the order of a Python program's writes to stdout and stderr.

The two streams are pipes, and a reader of two pipes cannot tell which write came first. A write to
one stream therefore waits until the supervisor has read everything from the other. This wait is
short and only occurs when the program switches streams.
"""

from __future__ import annotations

import fcntl
import io
import os
import sys
import termios
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

VARIABLE = "WINDLASS_STREAMS"  # the inodes of the stdout and stderr pipes
_LONGEST = 0.1  # seconds per wait
_PAUSE_AFTER = 5.0  # seconds without any waits after such a wait
_CREDIT, _SHARE = 1.0, 0.25  # for all waits together: seconds, and a share of the run time
_SHORTEST, _LONG = 0.00002, 0.001


def order_streams() -> None:
    """Replace `sys.stdout` and `sys.stderr` if they are the trial's pipes."""
    if os.environ.get(VARIABLE) != describe_pipes(1, 2):
        return
    streams = (sys.stdout, sys.stderr)
    if streams != (sys.__stdout__, sys.__stderr__):
        return
    if any(type(stream) is not io.TextIOWrapper for stream in streams):
        return
    stdout, stderr = OrderedFile(1), OrderedFile(2)
    stdout.other, stderr.other = stderr, stdout
    stdout.await_change()
    stderr.await_change()
    sys.stdout = sys.__stdout__ = _wrap(sys.stdout, stdout)  # type: ignore[misc,arg-type]
    sys.stderr = sys.__stderr__ = _wrap(sys.stderr, stderr)  # type: ignore[misc,arg-type]


def describe_pipes(stdout: int, stderr: int) -> str:
    """Return text that identifies two pipes, or "" if one of them is closed."""
    try:
        return f"{os.fstat(stdout).st_ino},{os.fstat(stderr).st_ino}"
    except OSError:
        return ""


class OrderedFile(io.FileIO):
    """A pipe. A write to this pipe waits until the supervisor has read the other pipe.

    Only the first write after a switch from the other stream waits. Until the next switch, `write`
    is the method of `io.FileIO`, which adds no cost.
    """

    other: OrderedFile

    def __init__(self, fd: int) -> None:
        super().__init__(fd, "wb", closefd=False)
        self.fd = fd  # unlike `fileno`, known even after the program has closed this stream
        self._plain_write = super().write

    def await_change(self) -> None:
        """Make the next write to this pipe wait until the supervisor has read the other pipe."""
        self.write = self._change  # type: ignore[method-assign]  # see above

    def _change(self, data: Any) -> int:
        if _has_unread(self.other.fd):
            _budget.wait(self.other.fd)
        self.write = self._plain_write  # type: ignore[method-assign]  # see above
        self.other.await_change()
        return self._plain_write(data)


class _Budget:
    """Limits how long a program waits for its supervisor, which may be suspended or slow."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._waited = 0.0
        self._next = 0.0

    def wait(self, fd: int) -> None:
        """Wait, by polling, until a pipe is empty. The system has no notification for this."""
        began = now = time.monotonic()
        if now < self._next or self._waited > _CREDIT + _SHARE * (now - self._began):
            return
        pause = _SHORTEST
        while _has_unread(fd):
            now = time.monotonic()
            if now - began > _LONGEST:
                self._next = now + _PAUSE_AFTER
                break
            time.sleep(pause)
            pause = min(pause * 2, _LONG)
        self._waited += time.monotonic() - began


def _wrap(stream: io.TextIOWrapper, raw: OrderedFile) -> io.TextIOWrapper:
    """Return a text stream with the settings of `stream` that writes to the ordered file `raw`."""
    stream.flush()
    raw.name = stream.name
    is_unbuffered = isinstance(stream.buffer, io.FileIO)
    text = io.TextIOWrapper(
        raw if is_unbuffered else io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
    text.mode = "w"  # type: ignore[misc]  # as Python does
    return text


def _has_unread(fd: int) -> bool:
    """Return whether a pipe contains bytes that its reader has not read."""
    size = bytearray(4)
    try:
        fcntl.ioctl(fd, termios.FIONREAD, size)
    except OSError:
        return False  # the pipe was closed, or the system does not report the size
    return any(size)


_budget = _Budget()

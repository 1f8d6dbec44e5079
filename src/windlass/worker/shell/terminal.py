"""A shell's terminal, which stores the shell's output and passes on typed bytes.

Without a terminal, the shell has two pipes instead, and its input may end.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import termios

from windlass.worker.shell import input_pipe
from windlass.worker.shell.output_log import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_READ = 64 * 1024
_TURN = 256 * 1024  # bytes of output to read before handling other events
_AHEAD = 64 * 1024  # bytes of input that may wait for the program


class Terminal:
    """A shell's terminal or pipes. The supervisor's event loop calls `attend`."""

    def __init__(
        self,
        attempt_dir: str,
        call: Mapping[str, Any],
        poll: select.poll,
        on_output: Callable[[], None],
    ) -> None:
        self._kept = Writer(attempt_dir)
        self._poll = poll
        self._on_output = on_output  # called after more output was stored
        self._waiting = b""  # input that the program has not read yet
        self._is_ending = False
        self.has_terminal = bool(call["has_terminal"])
        self._typed: int | None
        self._shown: int | None
        if self.has_terminal:
            ours, theirs = os.openpty()
            self.inner = (theirs, theirs)
            self._typed, self._shown = ours, ours
        else:
            stdin, self._typed = os.pipe()
            self._shown, stdout = os.pipe()
            self.inner = (stdin, stdout)
        if self.has_terminal:
            self._resize(call["rows"], call["columns"])
        for fd in {self._typed, self._shown}:
            os.set_blocking(fd, False)
        self._keyboard: input_pipe.InputPipe | None = input_pipe.InputPipe(attempt_dir)
        self._armed: dict[int, int] = {}
        self._arm()

    @property
    def is_open(self) -> bool:
        """Return whether the shell can still write output."""
        return self._shown is not None

    def let_go(self) -> None:
        """Close the program's ends of the terminal, which the program has inherited."""
        for fd in set(self.inner):
            os.close(fd)

    def knows(self, fd: int) -> bool:
        """Return whether this terminal handles the events of a descriptor."""
        return fd in self._armed

    def attend(self, fd: int, events: int) -> None:
        """Handle a descriptor's events: pass typed bytes to the shell, and store its output."""
        if self._keyboard is not None and fd == self._keyboard.fd:
            self._take_typed()
        if fd == self._shown and events & ~select.POLLOUT:
            self._take_shown()
        if fd == self._typed:
            self._hand_in()
        self._arm()

    def hang_up(self) -> None:
        """Hang up the terminal, which sends SIGHUP to the shell."""
        if self.has_terminal and self._shown is not None:
            self._take_shown()
            self.close()

    def close(self) -> None:
        """Close all descriptors of the terminal."""
        if self._keyboard is not None:
            self._disarm(self._keyboard.fd)
            self._keyboard.close()
            self._keyboard = None
        self._close_typed()
        if self._shown is not None:
            self._disarm(self._shown)
            os.close(self._shown)
            self._shown = None
        self._kept.close()

    def _take_shown(self) -> None:
        pieces, size = [], 0
        is_over = False
        while size < _TURN:
            try:
                piece = os.read(self._shown, _READ) if self._shown is not None else b""
            except BlockingIOError:
                break
            except OSError:
                piece = b""  # Linux reports EIO once all other ends are closed
            if not piece:
                is_over = True
                break
            pieces.append(piece)
            size += len(piece)
        if pieces:
            self._kept.add(b"".join(pieces))
            self._on_output()
        if is_over:
            self.close()

    def _take_typed(self) -> None:
        assert self._keyboard is not None  # noqa: S101 -- checked by the caller
        for kind, data in self._keyboard.read():
            if kind == input_pipe.TYPED:
                self._waiting += data
            elif kind == input_pipe.SIZE and self.has_terminal:
                self._resize(*input_pipe.size_of(data))
            elif kind == input_pipe.END:
                self._is_ending = True
        self._hand_in()

    def _hand_in(self) -> None:
        while self._waiting and self._typed is not None:
            try:
                written = os.write(self._typed, self._waiting)
            except BlockingIOError:
                break
            except OSError:  # the program no longer reads input
                self._waiting = b""
                break
            self._waiting = self._waiting[written:]
        if self._is_ending and not self._waiting and not self.has_terminal:
            self._close_typed()

    def _close_typed(self) -> None:
        if self._typed is None:
            return
        if self._typed != self._shown:
            self._disarm(self._typed)
            os.close(self._typed)
        self._typed = None

    def _resize(self, rows: int, columns: int) -> None:
        if self._shown is None:
            return
        size = struct.pack("HHHH", rows, columns, 0, 0)
        try:
            before = fcntl.ioctl(self._shown, termios.TIOCGWINSZ, bytes(len(size)))
            fcntl.ioctl(self._shown, termios.TIOCSWINSZ, size)
            if before == size:
                # A new client's window may have the same size. The kernel sends the signal only if
                # the size changes, so send it from here to make the program redraw the screen.
                os.killpg(os.tcgetpgrp(self._shown), signal.SIGWINCH)
        except OSError:
            pass  # the program has ended

    def _arm(self) -> None:
        """Register the terminal's descriptors, and the events to wait for, with the event loop."""
        wanted: dict[int, int] = {}
        if self._shown is not None:
            wanted[self._shown] = select.POLLIN
        if self._typed is not None and self._waiting:
            wanted[self._typed] = wanted.get(self._typed, 0) | select.POLLOUT
        if self._keyboard is not None and len(self._waiting) < _AHEAD:
            wanted[self._keyboard.fd] = select.POLLIN
        for fd in [fd for fd in self._armed if fd not in wanted]:
            self._disarm(fd)
        for fd, events in wanted.items():
            if self._armed.get(fd) != events:
                self._poll.register(fd, events)
                self._armed[fd] = events

    def _disarm(self, fd: int) -> None:
        if self._armed.pop(fd, None) is not None:
            self._poll.unregister(fd)


def take_controls(inner: int) -> None:
    """In the shell's process, make the terminal `inner` the controlling terminal.

    Ctrl-C then interrupts the shell's programs.
    """
    fcntl.ioctl(inner, termios.TIOCSCTTY, 0)

"""A real terminal for a command: a pseudo-terminal with a size, keys and a screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

PATIENCE = 120.0  # an upper limit that only a failure reaches
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

CTRL_C = "\x03"


class Terminal:
    """A command in its own terminal."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        columns: int = 80,
        lines: int = 24,
    ) -> None:
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={"TERM": "xterm-256color", **env},
            cwd=cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        self.raw = ""

    @property
    def text(self) -> str:
        """The output without colours and cursor movements."""
        return _STEERING.sub("", self.raw)

    @property
    def lines(self) -> list[str]:
        """The final lines on the screen, without overwritten ones."""
        shown = re.sub(r"[^\n]*\r\x1b\[K", "", self.raw)
        return _STEERING.sub("", shown).replace("\r\n", "\n").splitlines()

    def wait_until_it_reads(self) -> Terminal:
        """Wait until the program sleeps, because an earlier interrupt takes effect late.

        Python records a signal, and still waits for a line.
        """
        stat = Path(f"/proc/{self._process.pid}/stat")
        eventually(lambda: stat.read_text().rpartition(")")[2].split()[0] == "S", "it reads")
        return self

    def until(self, text: str) -> Terminal:
        """Wait until the program has printed a text."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.text:
            assert time.monotonic() < deadline, f"never printed {text!r}: {self.text!r}"
            assert self._read(deadline), f"ended without {text!r}: {self.text!r}"
        return self

    def type(self, keys: str) -> Terminal:
        """Press keys."""
        os.write(self._ours, keys.encode())
        return self

    def resize(self, lines: int, columns: int) -> Terminal:
        """Change the size of the window."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        return self

    def hang_up(self) -> int:
        """Close the window and return the exit code."""
        os.close(self._ours)
        return self._process.wait(PATIENCE)

    def end(self) -> int:
        """Wait for the end and return the exit code."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            assert time.monotonic() < deadline, f"never ended: {self.text!r}"
        os.close(self._ours)
        return self._process.wait(PATIENCE)

    @contextlib.contextmanager
    def closing(self) -> Iterator[Terminal]:
        """End the process in any case."""
        try:
            yield self
        finally:
            self._process.kill()
            self._process.wait()

    def _read(self, deadline: float) -> bool:
        """Read the output and return whether there can be more."""
        ready, _, _ = select.select([self._ours], [], [], max(deadline - time.monotonic(), 0))
        if not ready:
            return True
        try:
            data = os.read(self._ours, 1 << 16)
        except OSError:  # on Linux, the end of a terminal that no process has open
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds, where no notification exists."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.02)

"""Programs in pseudo-terminals, and a slow package index."""

from __future__ import annotations

import fcntl
import http.server
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte

import windlass as wl
from harness import PATIENCE, Project

SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")

PREAMBLE = """
import os, signal, sys, time
import windlass as wl

def wait_for(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)

"""

WAITING = (
    PREAMBLE
    + """
import json

@wl.run(**json.loads(os.environ.get("OPTIONS", "{}")))
def train():
    try:
        print(f"pid {os.getpid()}.")
        wait_for("never")
    finally:
        print("cleaning up")

try:
    train()
except KeyboardInterrupt:
    print("interrupted")
    raise
"""
)
"""A program that waits for a trial which never ends by itself."""


class Terminal:
    """A program in a pseudo-terminal, and the screen as a person sees it."""

    def __init__(
        self,
        project: Project,
        *argv: str | Path,
        columns: int = 100,
        stdout: Any = None,
        **env: str,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 100, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, *map(str, argv)],
            stdin=slave,
            stdout=stdout or slave,
            stderr=slave,
            cwd=project.path,
            env={**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **env},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.raw = b""
        self._screen = pyte.Screen(columns or 80, 100)
        self._stream = pyte.ByteStream(self._screen)
        self._deadline = time.monotonic() + PATIENCE

    @property
    def lines(self) -> list[str]:
        """The rows of the screen that are not empty."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def wait_for(self, text: str) -> str:
        """Wait until a text appears on the screen, and return its line."""
        while True:
            for line in self.lines:
                if text in line:
                    return line
            assert self._read(), f"it ended and {text!r} is not there: {self.lines}"

    def wait_until(self, condition: Callable[[list[str]], bool]) -> None:
        """Wait until the lines of the screen fulfil a condition. A frame may arrive in pieces."""
        while not condition(self.lines):
            assert self._read(), f"it ended, and the screen shows {self.lines}"

    def wait_for_number(self, before: str) -> int:
        """Wait for a number with a full stop behind it, after a text."""
        while not (match := re.search(rf"{before} (\d+)\.", "\n".join(self.lines))):
            assert self._read(), f"it ended and {before!r} is not there: {self.lines}"
        return int(match[1])

    def wait_for_redraws(self, count: int) -> None:
        """Wait until the program has drawn the status line this many times more."""
        count += self.raw.count(b"\r\x1b[K")
        while self.raw.count(b"\r\x1b[K") < count:
            assert self._read(), "it ended"

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C, and read until the program has ended."""
        self.press(b"\x03")
        assert self.finish() in (-signal.SIGINT, 130)

    def finish(self) -> int:
        """Read until the program has ended. Return its exit code, negative for a signal."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE)

    def _read(self) -> bool:
        left = self._deadline - time.monotonic()
        ready, _, _ = select.select([self._master], [], [], max(left, 0))
        assert ready, f"nothing more came; the screen: {self.lines}"
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux reports EIO where other systems report end of file
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


def stopped_by_ctrl_c(terminal: Terminal) -> wl.Trial[Any]:
    """Press Ctrl-C while `WAITING` runs.

    The trial stops, and the terminal shows each step in order.
    """
    terminal.press_ctrl_c()
    trial = next(wl.list_trials(sort_by="-id"))
    assert trial.state == "STOPPED"
    screen = "\n".join(terminal.lines)
    expected = [
        f"Stopping trial {trial.id} (5s to clean up); Ctrl-C again leaves without waiting.",
        "cleaning up",
        f"Trial {trial.id} (train) was stopped",
        "interrupted",
    ]
    places = [screen.find(line) for line in expected]
    assert -1 not in places and places == sorted(places), screen
    assert not SPINNER.search(screen)
    return trial


class SlowIndex:
    """A package index with one small package, which answers when the test allows it."""

    def __init__(self, home: Path) -> None:
        self.opened = {"resolve": threading.Event(), "install": threading.Event()}
        index = self
        wheel = _wheel()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(b"")

            def do_GET(self) -> None:
                self._answer(wheel)

            def _answer(self, body: bytes) -> None:
                states = home.glob("trials/*/*/*/state.json")
                installs = any('"installing"' in state.read_text() for state in states)
                index.opened["install" if installs else "resolve"].wait(PATIENCE)
                self.send_response(200)
                self.send_header("Content-Length", str(len(wheel)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{port}/tinything-1.0-py3-none-any.whl"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        for event in self.opened.values():
            event.set()
        self._server.shutdown()
        self._server.server_close()


def _wheel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        info = "tinything-1.0.dist-info"
        file.writestr("tinything.py", "VALUE = 7\n")
        file.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
    return buffer.getvalue()


Launch = Callable[..., Terminal]

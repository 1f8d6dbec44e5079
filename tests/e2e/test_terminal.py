"""What a person at a terminal sees while a call blocks, and what Ctrl-C does."""

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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pyte
import pytest

import windlass as wl
from conftest import PATIENCE, Project, eventually, stop_trials

ESCAPE = b"\x1b"
SPINNER = re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]")

PREAMBLE = """
import os, signal, sys, time
import windlass as wl

def wait_for(gate):
    while not os.path.exists(gate):
        time.sleep(0.01)

"""


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
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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
        self._screen = pyte.Screen(columns or 80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self._deadline = time.monotonic() + PATIENCE

    @property
    def lines(self) -> list[str]:
        """The rows of the screen that something stands in."""
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def wait_for(self, text: str) -> str:
        """Wait until a text stands on the screen; the line it is in."""
        while True:
            for line in self.lines:
                if text in line:
                    return line
            assert self._read(), f"it ended and {text!r} is not there: {self.lines}"

    def wait_for_redraws(self, count: int) -> None:
        """Wait until the status line was drawn so many times more."""
        count += self.raw.count(b"\r\x1b[K")
        while self.raw.count(b"\r\x1b[K") < count:
            assert self._read(), "it ended"

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def finish(self) -> int:
        """Read until the program has ended; its exit code, negative for a signal."""
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
        except OSError:  # Linux says EIO where others say end of file
            return False
        self.raw += data
        self._stream.feed(data)
        return bool(data)


@pytest.fixture(autouse=True)
def one_cpu(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine with room for one trial, which no test leaves taken."""
    monkeypatch.setenv("WINDLASS_CPUS", "1")
    yield
    stop_trials(home)


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def test_output_is_shown_as_it_is_written_and_the_status_line_leaves_no_trace(
    project: Project, gate: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    terminal = Terminal(project, "train.py", gate)
    for number, shown in enumerate(["first line", "careful", "10%", "20%", "done"]):
        assert terminal.wait_for(shown) == shown
        if shown == "careful":
            status = terminal.wait_for("running")
            assert SPINNER.match(status)
            assert re.search(r"trial \d+ \(train\) running", status)
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    *written, note, value = terminal.lines
    assert written == ["first line", "careful", "done", "unended"]  # a \r bar is written over
    assert re.fullmatch(r"trial \d+ \(train\) succeeded in [\d.]+m?s", note)
    assert value == "value 7"


STEPS = """
@wl.run
def train(gate):
    print("first line")
    wait_for(gate + "0")
    print("careful", file=sys.stderr)
    wait_for(gate + "1")
    print("10%", end="\\r")
    wait_for(gate + "2")
    print("20%", end="\\r")
    wait_for(gate + "3")
    print("done")
    wait_for(gate + "4")
    print("unended", end="")
    return 7

print("value", train(sys.argv[1]))
"""


def test_piped_output_stays_plain_and_streams_all_the_same(
    project: Project, gate: Path, tmp_path: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "train.py", gate], cwd=project.path, stdout=stdout, stderr=stderr
        )
    for number, shown in enumerate([b"first line\n", b"careful\n", b"10%\r", b"20%\r", b"done\n"]):
        path = err if shown == b"careful\n" else out
        eventually(lambda p=path, s=shown: p.read_bytes().endswith(s), f"{shown!r} is there")
        Path(f"{gate}{number}").touch()
    assert process.wait(PATIENCE) == 0
    assert out.read_bytes() == b"first line\n10%\r20%\rdone\nunendedvalue 7\n"
    assert err.read_bytes() == b"careful\n"


def test_with_stdout_in_a_file_the_status_is_still_on_the_terminal(
    project: Project, gate: Path, tmp_path: Path
) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    with (tmp_path / "out").open("wb") as out:
        terminal = Terminal(project, "train.py", gate, stdout=out)
    terminal.wait_for("running")
    for number in range(5):
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    assert (tmp_path / "out").read_bytes() == b"first line\n10%\r20%\rdone\nunendedvalue 7\n"
    assert terminal.lines[0] == "careful"
    assert "succeeded" in terminal.lines[1]
    assert len(terminal.lines) == 2


def test_a_dumb_terminal_gets_no_escape_codes_and_no_status(project: Project, gate: Path) -> None:
    project.write("train.py", PREAMBLE + STEPS)
    terminal = Terminal(project, "train.py", gate, TERM="dumb")
    for number, shown in enumerate(["first line", "careful", "10%", "20%", "done"]):
        terminal.wait_for(shown)
        Path(f"{gate}{number}").touch()
    assert terminal.finish() == 0
    written = b"first line\r\ncareful\r\n10%\r20%\rdone\r\nunendedvalue 7\r\n"
    assert terminal.raw == written  # to the byte what a local call would have written


def test_the_status_line_says_packaging_then_starting_then_running(
    project: Project, gate: Path, slow_index: SlowIndex
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + f"""
@wl.run(packages=["tinything @ {slow_index.url}"])
def train(gate):
    wait_for(gate)
    import tinything
    return tinything.VALUE

print("value", train(sys.argv[1]))
""",
    )
    # Without a cache the package is fetched twice: to resolve it, and to install it.
    terminal = Terminal(project, "train.py", gate, UV_NO_CACHE="1", NO_PROXY="127.0.0.1")
    terminal.wait_for("train: packaging")
    slow_index.opened["resolve"].set()
    terminal.wait_for("(train) starting: installing 1 package")
    slow_index.opened["install"].set()
    terminal.wait_for("(train) running")
    gate.touch()
    assert terminal.finish() == 0
    assert terminal.lines[-1] == "value 7"
    assert not SPINNER.search("".join(terminal.lines))


class SlowIndex:
    """A server with one small package, that answers when it is told to."""

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
                installs = any('"installing"' in each.read_text() for each in states)
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
        file.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tinything\nVersion: 1.0\n"
        )
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return buffer.getvalue()


@pytest.fixture
def slow_index(home: Path) -> Iterator[SlowIndex]:
    index = SlowIndex(home)
    yield index
    index.close()


QUEUED = """
@wl.run
def train():
    return 7

@wl.run
def 长长的名字的训练():
    return 7

{}()
"""


def test_a_queued_call_says_why_in_one_line_however_narrow_and_ctrl_c_takes_it_back(
    project: Project, gate: Path
) -> None:
    project.write("hog.py", PREAMBLE + "wl.run(wait_for).submit(sys.argv[1])\n")
    project.write("train.py", PREAMBLE + QUEUED.format("train"))
    project.write("wide.py", PREAMBLE + QUEUED.format("长长的名字的训练"))
    assert project.python("hog.py", gate).returncode == 0
    hog = next(wl.list_trials(sort_by="-id"))
    eventually(lambda: hog.refresh().state == "RUNNING", "the machine is taken")

    terminal = Terminal(project, "train.py")
    status = terminal.wait_for("queued: needs 1 CPU, 0 free; 1st in queue")
    assert len(terminal.lines) == 1, status
    narrow = [
        Terminal(project, "train.py", columns=0),  # as where nobody said how wide it is
        Terminal(project, "train.py", columns=30),
        Terminal(project, "train.py", columns=30, PYTHONIOENCODING="ascii"),
        Terminal(project, "wide.py", columns=30),
        Terminal(project, "train.py", columns=4),
    ]
    assert re.search(r"needs 1 CPU, 0 free; .{3} in queue", narrow[0].wait_for("queued"))
    for each in narrow:
        each.wait_for_redraws(6)
        assert len(each.lines) <= 1, each.lines
    for each in [terminal, *narrow]:
        each.press(b"\x03")
    for each in [terminal, *narrow]:
        assert each.finish() in (-signal.SIGINT, 130)
    assert "was stopped" in "\n".join(terminal.lines)
    taken_back = list(wl.list_trials(sort_by="-id", limit=6))
    assert {(each.state, each.started) for each in taken_back} == {("STOPPED", None)}
    gate.touch()
    assert hog.wait(PATIENCE).state == "SUCCEEDED"


STOPPED = """
@wl.run
def train():
    def clean_up(number, frame):
        print("cleaning up")
        sys.exit(1)
    signal.signal(signal.SIGTERM, clean_up)
    print("pid", os.getpid())
    wait_for("never")

try:
    train()
except KeyboardInterrupt:
    print("interrupted")
    raise
"""


def test_ctrl_c_stops_the_trial_waits_for_it_and_says_so(project: Project) -> None:
    project.write("train.py", PREAMBLE + STOPPED)
    terminal = Terminal(project, "train.py")
    pid = int(terminal.wait_for("pid").split()[1])
    terminal.press(b"\x03")
    assert terminal.finish() in (-signal.SIGINT, 130)
    trial = next(wl.list_trials(sort_by="-id"))
    assert trial.state == "STOPPED"
    assert not psutil.pid_exists(pid)
    screen = "\n".join(terminal.lines)
    told = [
        f"Stopping trial {trial.id}; Ctrl-C again leaves without waiting.",
        "cleaning up",
        f"Trial {trial.id} (train) was stopped",
        "interrupted",
    ]
    places = [screen.find(each) for each in told]
    assert -1 not in places, screen
    assert places == sorted(places), screen
    assert not SPINNER.search(screen)
    with pytest.raises(wl.TrialStopped):
        trial.result()


def test_a_second_ctrl_c_leaves_at_once_and_says_how_to_look_further(project: Project) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("pid", os.getpid())
    wait_for("never")

train()
""",
    )
    terminal = Terminal(project, "train.py")
    pid = int(terminal.wait_for("pid").split()[1])
    terminal.press(b"\x03")
    terminal.wait_for("Stopping trial")
    trial = next(wl.list_trials(sort_by="-id"))
    terminal.press(b"\x03")
    assert terminal.finish() in (-signal.SIGINT, 130)
    assert psutil.pid_exists(pid)  # the grace it has is ten seconds: nobody waited for it
    assert trial.refresh().state == "STOPPING"
    left = f"Left trial {trial.id} while it stops. See: windlass show {trial.id}"
    assert left in "\n".join(terminal.lines)
    trial.stop(grace=0)  # who has no patience may say so
    assert trial.wait(PATIENCE).state == "STOPPED"
    assert trial.record.signal == "SIGKILL"
    assert not psutil.pid_exists(pid)


def test_what_was_submitted_goes_on_when_ctrl_c_ends_the_program(
    project: Project, gate: Path
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train(gate):
    wait_for(gate)
    return 7

print("trial", train.submit(sys.argv[1]).id)
wait_for("never")
""",
    )
    terminal = Terminal(project, "train.py", gate)
    trial = wl.get_trial(int(terminal.wait_for("trial").split()[1]))
    terminal.press(b"\x03")
    assert terminal.finish() in (-signal.SIGINT, 130)
    eventually(lambda: trial.refresh().state == "RUNNING", "it runs")
    gate.touch()
    assert trial.result(timeout=PATIENCE) == 7


def test_an_error_is_told_below_what_was_printed_with_the_status_line_gone(
    project: Project,
) -> None:
    project.write(
        "train.py",
        PREAMBLE
        + """
@wl.run
def train():
    print("so far")
    raise ValueError("bad luck")

train()
""",
    )
    terminal = Terminal(project, "train.py")
    assert terminal.finish() == 1
    assert terminal.raw.count(b"ValueError: bad luck") >= 1
    assert not SPINNER.search("".join(terminal.lines))
    assert terminal.lines[0] == "so far" or "so far" not in "".join(terminal.lines)

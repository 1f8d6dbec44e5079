"""Attaches the user's terminal to a shell on the server.

Typed keys are sent to the shell, and the shell's output appears in the terminal. When the session
ends, even with an error, the terminal's settings are restored.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Iterator
from typing import Any

from windlass.client.connection.shell_stream import (
    InputThread,
    Over,
    ShellInput,
    ShellStream,
    Shown,
)
from windlass.client.connection.transport import Transport, request_path
from windlass.model.errors import InvalidArgument, WindlassError
from windlass.model.job import ShellCall
from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import StopTrial
from windlass.model.text.quantities import format_size
from windlass.model.text.terminal_screen import Modes
from windlass.worker.common.atomic_files import write_all

DETACH = b"\x1d"  # Ctrl-]
_TWICE_WITHIN = 0.5
_READ = 64 * 1024
_LAST_KEYS = 5.0  # seconds for sending the last keys before detaching
_INTERRUPTED = 130


def attach(transport: Transport, record: TrialRecord) -> int | None:
    """Attach to a shell until the shell ends or the user detaches.

    Return the shell's exit code, or None if the user detached.
    """
    try:
        stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
    except (OSError, ValueError, AttributeError) as error:
        raise InvalidArgument(
            "There is no terminal here to attach to a shell.",
            hint="Type with shell.send(...) and see with shell.read(), or use a terminal: "
            f"windlass shell attach {record.id}",
        ) from error
    sys.stdout.flush()
    return _Attachment(transport, record, stdin, stdout).run()


class _Attachment:
    def __init__(self, transport: Transport, record: TrialRecord, stdin: int, stdout: int) -> None:
        self._transport = transport
        self._record = record
        self._stdin, self._stdout = stdin, stdout
        self._is_typed = os.isatty(stdin)  # True if a person types the input
        call = record.spec.roles[0].executable
        self._has_terminal = isinstance(call, ShellCall) and call.has_terminal
        self._stream = ShellStream(transport, record.id, None if self._has_terminal else 0)
        self._typist = InputThread(ShellInput(transport, record.id))
        self._detaching = _DetachKeys()
        self._modes = Modes()
        self._failure: BaseException | None = None
        self._is_over = False
        self._is_raw = False
        self._has_shown = False
        self._waited_for = ""
        self._left_by: int | None = None  # the signal that ended the session

    def run(self) -> int | None:
        hears, tells = os.pipe()
        reader = threading.Thread(
            target=self._show, args=(tells,), name="windlass-screen", daemon=True
        )
        with _signals(tells), self._raw():
            if self._has_terminal:
                self._send_size()
            reader.start()
            try:
                is_left = self._attend(hears)
            finally:
                self._typist.finish(0 if self._is_over else _LAST_KEYS)
                self._stream.cut()
                reader.join(_LAST_KEYS)  # limited, because the terminal may not accept output
                self._write(self._modes.left())
        os.close(hears)
        os.close(tells)
        if self._failure is not None and not self._is_over:
            raise self._failure
        if self._left_by is not None:
            self._say_left()
            return 128 + self._left_by
        if is_left:
            self._say_left()
            return None
        return self._conclude()

    # -- typed keys ---------------------------------------------------------------------

    def _attend(self, hears: int) -> bool:
        """Send typed keys until the shell ends or the user detaches.

        Return True if the user detached.
        """
        waiting = select.poll()
        waiting.register(self._stdin, select.POLLIN)
        waiting.register(hears, select.POLLIN)
        while True:
            due = self._detaching.due
            ready = waiting.poll(None if due is None else max(due - time.monotonic(), 0) * 1000)
            if not ready:
                self._typist.type(self._detaching.give_up())
            for fd, _ in ready:
                if fd == hears:
                    came = set(os.read(hears, 512))
                    if self._is_over or self._failure is not None:
                        return False
                    if self._handle_ready(came):
                        return True
                    continue
                keys = self._read_keys()
                if keys is None:
                    return True
                if not keys:
                    waiting.unregister(self._stdin)
                    self._typist.end()
                    if self._has_terminal:
                        return True  # detach, so that the shell continues

    def _read_keys(self) -> bytes | None:
        """Read typed keys and send them to the shell.

        Return the keys, b"" at the end of the input, or None if the user asked to detach.
        """
        try:
            keys = os.read(self._stdin, _READ)
        except OSError:
            keys = b""  # the terminal was closed
        if not keys:
            return b""
        if not self._is_typed:
            self._typist.type(keys)
            return keys
        if not self._is_running and b"\x03" in keys:
            self._kill("Ctrl-C")
            return keys
        is_leaving, passed = self._detaching.feed(keys)
        self._typist.type(passed)
        return None if is_leaving else keys

    @property
    def _is_running(self) -> bool:
        """Whether the shell accepts input.

        The shell's first output may arrive before its state changes to RUNNING, so output counts as
        well.
        """
        is_waiting = self._record.state in (TrialState.QUEUED, TrialState.STARTING)
        return self._has_shown or not is_waiting

    def _handle_ready(self, came: set[int]) -> bool:
        """Handle the received signals. Return True if one of them ends the session."""
        if signal.SIGWINCH in came and self._has_terminal:
            self._send_size()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number in came:
                self._left_by = number
                if not self._has_terminal:  # no client can attach again without a terminal
                    self._kill(signal.Signals(number).name)
                return True
        return False

    def _send_size(self) -> None:
        if os.isatty(self._stdout) or self._is_typed:
            fd = self._stdout if os.isatty(self._stdout) else self._stdin
            size = os.get_terminal_size(fd)
            self._typist.resize(size.lines, size.columns)

    def _kill(self, reason: str) -> None:
        body = StopTrial(grace=2.0, reason=reason)
        with contextlib.suppress(WindlassError):
            path = request_path("trials", self._record.id, "stop")
            self._transport.ask("POST", path, TrialRecord, body=body)

    # -- output -------------------------------------------------------------------------

    def _show(self, tells: int) -> None:
        """Write the shell's output to the terminal until the shell ends.

        This method runs in its own thread.
        """
        try:
            for news in self._stream:
                if isinstance(news, Shown):
                    if news.skipped > 0:
                        self._say(f"[{format_size(news.skipped)} came too fast to be shown]")
                    self._has_shown = self._has_shown or bool(news.data)
                    self._modes.feed(news.data)
                    self._write(news.data)
                elif isinstance(news, TrialRecord):
                    self._record = news
                    self._tell_waiting(news)
                else:
                    assert isinstance(news, Over)  # noqa: S101 -- there are no other events
                    self._record, self._is_over = news.record, True
                if self._is_running:
                    self._typist.begin()
        except (WindlassError, OSError) as error:
            self._failure = error
        os.write(tells, b"\0")

    def _tell_waiting(self, record: TrialRecord) -> None:
        waits = record.message if not self._is_running else ""
        if waits and waits != self._waited_for:
            self._say(f"Shell {record.id} waits: {waits}. Ctrl-C gives it up.")
        self._waited_for = waits

    def _write(self, data: bytes) -> None:
        write_all(self._stdout, data)

    def _say(self, text: str) -> None:
        """Print a message to stderr, with line ends that suit the terminal's current mode."""
        sys.stderr.write(text.replace("\n", "\r\n") + "\r\n" if self._is_raw else f"{text}\n")
        sys.stderr.flush()

    def _say_left(self) -> None:
        shell_id = self._record.id
        if not self._has_terminal:
            self._say(f"Shell {shell_id} is being stopped.")
            return
        self._say(
            f"\nDetached from shell {shell_id}, which continues to run.\n"
            f"  windlass shell attach {shell_id}\n"
            f"  windlass shell kill {shell_id}"
        )

    def _conclude(self) -> int:
        record = self._record
        if record.state is TrialState.STOPPED:
            self._say(f"\nShell {record.id} was stopped.")
        elif record.exit_code is None or record.reason == "DeadlineExceeded":
            self._say(f"\nShell {record.id} ended: {record.message or record.reason}")
        elif record.started is None:
            self._say(record.message)
        code = record.exit_code
        return code if code is not None else 1

    @contextlib.contextmanager
    def _raw(self) -> Iterator[None]:
        """Put the terminal into raw mode during the `with` block, so that keys are read one by one.

        Afterwards, restore the terminal's settings.
        """
        if not self._is_typed:
            yield
            return
        before = termios.tcgetattr(self._stdin)
        try:
            tty.setraw(self._stdin, termios.TCSADRAIN)
            self._is_raw = True
            yield
        finally:
            self._is_raw = False
            termios.tcsetattr(self._stdin, termios.TCSADRAIN, before)


class _DetachKeys:
    """Detects two quick presses of Ctrl-]. A single Ctrl-] is sent to the shell.

    >>> keys = _DetachKeys()
    >>> keys.feed(b"ls\\r"), keys.feed(b"a\\x1d"), keys.feed(b"\\x1d")
    ((False, b'ls\\r'), (False, b'a'), (True, b''))
    """

    def __init__(self) -> None:
        self.due: float | None = None  # when to send a single Ctrl-] to the shell

    def feed(self, keys: bytes) -> tuple[bool, bytes]:
        """Add typed keys. Return whether to detach, and the keys to send to the shell."""
        keys = self.give_up() + keys
        before, detach_keys, _ = keys.partition(DETACH * 2)
        if detach_keys:
            return True, before
        if keys.endswith(DETACH):
            self.due = time.monotonic() + _TWICE_WITHIN
            return False, keys[:-1]
        return False, keys

    def give_up(self) -> bytes:
        """Stop waiting for a second Ctrl-].

        Return the first Ctrl-], which is to be sent to the shell, or b"" if there was none.
        """
        held, self.due = (DETACH if self.due is not None else b""), None
        return held


@contextlib.contextmanager
def _signals(tells: int) -> Iterator[None]:
    """During the `with` block, write the number of each arriving signal to a pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    numbers = (signal.SIGWINCH, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    os.set_blocking(tells, False)
    before: dict[int, Any] = {number: signal.signal(number, _note) for number in numbers}
    waking = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(waking)
        for number, handler in before.items():
            signal.signal(number, handler)


def _note(_number: int, _frame: object) -> None:
    """Do nothing.

    This handler is necessary, because Python reports a signal through the wakeup pipe only if the
    signal has a handler.
    """


def size_here() -> tuple[int, int]:
    """Return this terminal's rows and columns. Without a terminal, return 24 and 80."""
    size = shutil.get_terminal_size((80, 24))
    return size.lines, size.columns

"""A supervisor's event loop, which waits for output, signals and timers."""

from __future__ import annotations

import os
import select
import signal
import time

from windlass.worker.common.file_reads import read_json, retried
from windlass.worker.common.nudge import LOG, Nudger
from windlass.worker.logs.output_pump import Stream
from windlass.worker.logs.segment import SegmentWriter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from windlass.worker.shell.terminal import Terminal
    from windlass.worker.supervise.signals import SignalPipe

_HEARTBEAT = 5.0  # `runtimes/local/stray_processes.py` allows for delays
_DEFAULT_GRACE = 10.0
_NUDGE_AGAIN = 0.02
_BREATH = 0.003  # seconds to let output accumulate while a program writes fast
_AT_ONCE = 0.005  # seconds; output that follows sooner counts as fast


class EventLoop:
    """Copies output to the log and handles signals in each call of `wait`."""

    def __init__(
        self, attempt_dir: str, signals: SignalPipe, nudger: Nudger, secrets: Sequence[str]
    ) -> None:
        self.log = SegmentWriter(os.path.join(attempt_dir, "log"))
        self.stop_by: float | None = None  # when the grace period ends, once a stop was requested
        self.terminate_at = 0.0  # when SIGTERM follows, if the stop begins with SIGINT
        self.is_out_of_time = False  # whether the deadline caused the stop
        self._deadline: float | None = None
        self._dir = attempt_dir
        self._signals = signals
        self._nudger = nudger
        self._secrets = secrets
        self._streams: dict[int, Stream] = {}
        self._poll = select.poll()
        self._poll.register(signals.fileno(), select.POLLIN)
        self._next_beat = time.monotonic() + _HEARTBEAT
        self._terminal: Terminal | None = None
        self._sample: Callable[[], float | None] | None = None
        self._next_sample = 0.0
        self._signalled = select.poll()
        self._signalled.register(signals.fileno(), select.POLLIN)
        self._last_read = 0.0
        self._last_fd = -1  # the pipe that was read last
        self._is_flooded = False

    @property
    def is_reading(self) -> bool:
        """Return whether any output stream is still open."""
        return bool(self._streams) or (self._terminal is not None and self._terminal.is_open)

    def open(self, fd: int, name: str) -> None:
        """Copy a pipe's output to the log. `name` is the stream, such as "stdout"."""
        os.set_blocking(fd, False)
        self._streams[fd] = Stream(fd, name, self._secrets, self.log)
        self._poll.register(fd, select.POLLIN)

    def open_terminal(self, call: Mapping[str, Any]) -> Terminal:
        """Open a terminal for a shell.

        From now on, `wait` handles the terminal's input and output.
        """
        from windlass.worker.shell.terminal import Terminal  # loaded only for shells

        self._terminal = Terminal(self._dir, call, self._poll, lambda: self._nudger.nudge(LOG))
        return self._terminal

    def hang_up(self) -> None:
        """Hang up a shell's terminal."""
        if self._terminal is not None:
            self._terminal.hang_up()

    def wait(self, until: float | None) -> None:
        """Wait for an event, until the time `until` at the latest, then handle all events."""
        now = time.monotonic()
        due = min(
            until if until is not None else self._next_beat,
            self._next_beat,
            now + _NUDGE_AGAIN if self._nudger.is_pending else self._next_beat,
            self._deadline if self._deadline is not None else self._next_beat,
            self._next_sample if self._sample is not None else self._next_beat,
            *(stream.due for stream in self._streams.values() if stream.due is not None),
        )
        if self._is_flooded and due > now + _BREATH:
            # If a program writes line by line, waking up for each line would double the CPU usage.
            # Wait a moment for more lines. Signals still end this wait immediately.
            self._signalled.poll(_BREATH * 1000)
        # Round up, because the loop would spin if the wait ended too early.
        ready = self._poll.poll(max(0, int((due - now) * 1000) + 1) if due > now else 0)
        now = time.monotonic()
        for fd, events in ready:
            if fd == self._signals.fileno():
                if signal.SIGTERM in self._signals.drain():
                    self.begin_to_stop()
            elif self._terminal is not None and self._terminal.knows(fd):
                self._terminal.attend(fd, events)
            elif fd in self._streams:
                self._read(fd, now)
        for stream in self._streams.values():
            stream.flush(now)
        if self._nudger.is_pending:
            self._nudger.retry()
        if now >= self._next_beat:
            self._beat(now)
        if self._deadline is not None and now >= self._deadline:
            self._deadline = None
            self.is_out_of_time = self.stop_by is None
            self.begin_to_stop()
        if self._sample is not None and now >= self._next_sample:
            self.sample_in(self._sample(), self._sample)
        self.flush_log()

    def sample_in(self, seconds: float | None, sample: Callable[[], float | None]) -> None:
        """Call `sample` after a delay.

        `sample` returns the delay before its next call, or None if there is no next call.
        """
        self._sample = sample if seconds is not None else None
        self._next_sample = time.monotonic() + (seconds or 0.0)

    def set_deadline(self, seconds: float) -> None:
        """Stop the attempt after this many seconds."""
        self._deadline = time.monotonic() + seconds

    def begin_to_stop(self) -> None:
        """Handle a stop request.

        If there are several requests, the shortest grace period applies. SIGINT comes first only if
        all of them ask for it, and SIGTERM then follows after half of the time.
        """
        try:
            order = retried(lambda: read_json(os.path.join(self._dir, "stop.json")), 1.0) or {}
        except OSError:
            order = {}
        grace = order.get("grace")
        grace = float(grace) if isinstance(grace, (int, float)) else _DEFAULT_GRACE
        now, grace = time.monotonic(), max(0.0, grace)
        terminate_at = now + grace / 2 if order.get("interrupt") else now
        if self.stop_by is None:
            self.stop_by, self.terminate_at = now + grace, terminate_at
        else:
            self.stop_by = min(self.stop_by, now + grace)
            self.terminate_at = min(self.terminate_at, terminate_at)

    def flush_log(self) -> None:
        """Write pending output to the log and nudge the server."""
        if self.log.flush(time.time()):
            self._nudger.nudge(LOG)

    def close_streams(self) -> None:
        """Close output pipes that processes outside the process tree hold open."""
        for fd in list(self._streams):
            self._close(fd)
        if self._terminal is not None:
            self._terminal.close()
        self.flush_log()

    def _read(self, fd: int, now: float) -> None:
        stream = self._streams[fd]
        if fd != self._last_fd:
            # A program may write to one stream only after this supervisor has read the other, so
            # the order of the reads is the order of the writes.
            for other in self._streams.values():
                if other is not stream:
                    other.end_piece()
        if not stream.read(now):
            self._close(fd)
            return
        # Read a full pipe again immediately. If data arrives often but in small pieces, wait before
        # the next read.
        is_fast = now - self._last_read < _AT_ONCE and fd == self._last_fd
        self._is_flooded = is_fast and not stream.was_full
        self._last_read, self._last_fd = now, fd

    def _close(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._streams.pop(fd).finish()
        os.close(fd)

    def _beat(self, now: float) -> None:
        self._next_beat = now + _HEARTBEAT
        try:
            os.utime(os.path.join(self._dir, "state.json"))
        except OSError:
            pass  # the disk is full, so the state file does not exist yet

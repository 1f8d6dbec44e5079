"""Follows a shell's output on the server, and sends typed input to the shell."""

from __future__ import annotations

import base64
import contextlib
import secrets
import threading
import time
from typing import NamedTuple

from windlass.client.connection.event_stream import Stream
from windlass.client.connection.http import EventStream, StreamEvent
from windlass.client.connection.transport import Transport, decode, request_path
from windlass.model.errors import (
    InvalidArgument,
    ServerUnreachable,
    WaitTimeout,
    WindlassError,
    shown,
)
from windlass.model.records import TrialRecord
from windlass.model.requests import ShellSize, ShellTaken

_AT_ONCE = 32 * 1024
_PATIENCE = 60.0  # seconds without a server before typed input is dropped
_PAUSE = 0.2


class Shown(NamedTuple):
    """A piece of a shell's output."""

    data: bytes
    position: int  # the position after its last byte
    skipped: int = 0  # bytes before it that are no longer stored


class Over(NamedTuple):
    """The end of a shell's output stream.

    Either the shell has ended, or the client requested only the existing output.
    """

    record: TrialRecord


News = Shown | TrialRecord | Over


class ShellStream(Stream[News]):
    """A shell's output, starting at a given position or from the current screen.

    If the stream breaks, for example because the server restarts, it continues at its last
    position.
    """

    def __init__(
        self,
        transport: Transport,
        shell_id: int,
        position: int | None = None,
        *,
        follows: bool = True,
        timeout: float | None = None,
    ) -> None:
        super().__init__(transport, timeout=timeout)
        self._id = shell_id
        self._position = position
        self._follows = follows

    def _open(self) -> contextlib.AbstractContextManager[EventStream]:
        query = {"offset": self._position, "follow": None if self._follows else "false"}
        return self._transport.stream(
            "GET", request_path("shells", self._id, "output"), query=query
        )

    def _decode(self, event: StreamEvent) -> News | None:
        if event.name == "output":
            data, before, position = base64.b64decode(event.data), self._position, int(event.id)
            self._position = position
            skipped = 0 if before is None else position - len(data) - before
            return Shown(data, position, skipped)
        record = decode(event.data, TrialRecord)
        return Over(record) if event.name == "end" else record

    def _is_last(self, news: News) -> bool:
        return isinstance(news, Over)

    def _too_late(self, limit: str) -> WaitTimeout:
        return WaitTimeout(
            f"Shell {self._id} did not print it within {limit}. It continues to run.",
            hint=f"See: windlass shell attach {self._id}",
        )


class ShellInput:
    """Sends typed input to a shell. A retried request does not repeat the input."""

    def __init__(self, transport: Transport, shell_id: int) -> None:
        self._transport = transport
        self._id = shell_id
        self._writer = secrets.token_hex(8)
        self._position = 0

    def send(self, data: bytes, *, is_last: bool = False) -> int:
        """Send input and return the number of bytes that the shell accepted.

        The number is 0 while the shell is not reading.
        """
        data = data[:_AT_ONCE]
        query = {
            "writer": self._writer,
            "offset": self._position,
            "last": "true" if is_last else None,
        }
        path = request_path("shells", self._id, "input")
        answer = self._transport.ask("POST", path, ShellTaken, body=data, query=query)
        self._position += answer.taken
        return answer.taken

    def resize(self, rows: int, columns: int) -> None:
        """Resize the shell's terminal."""
        for name, size in (("rows", rows), ("columns", columns)):
            if isinstance(size, bool) or not isinstance(size, int):
                raise InvalidArgument(f"{name}={shown(size)}: write a whole number.")
        body = ShellSize(rows=max(rows, 1), columns=max(columns, 1))
        self._transport.ask("POST", request_path("shells", self._id, "size"), ShellSize, body=body)


class InputThread:
    """Sends typed input in order from its own thread, so that callers need not wait."""

    def __init__(self, keys: ShellInput) -> None:
        self._keys = keys
        self._typed = b""
        self._size: tuple[int, int] | None = None
        self._is_last = False
        self._is_leaving = False
        self._has_begun = False
        self._has_given_up = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="windlass-keys", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Start sending queued input. Call this method when the shell is running."""
        with self._changed:
            self._has_begun = True
            self._changed.notify()

    def type(self, data: bytes) -> None:
        """Append input to the queue."""
        with self._changed:
            self._typed += data
            self._changed.notify()

    def resize(self, rows: int, columns: int) -> None:
        """Resize the shell's terminal."""
        with self._changed:
            self._size = (rows, columns)
            self._changed.notify()

    def end(self) -> None:
        """Mark the end of the input.

        A shell without a terminal then sees the end of its standard input.
        """
        with self._changed:
            self._is_last = True
            self._changed.notify()

    def finish(self, seconds: float) -> None:
        """End the thread once all input has been sent, or after a timeout in seconds."""
        with self._changed:
            self._is_leaving = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            self._has_given_up = True
            self._changed.notify()

    @property
    def _is_pending(self) -> bool:
        return bool(self._typed or self._size or self._is_last)

    def _run(self) -> None:
        away_since: float | None = None
        while True:
            with self._changed:
                while not (self._has_begun and self._is_pending):
                    if self._is_leaving and not self._is_pending:
                        return
                    if self._has_given_up:
                        return
                    self._changed.wait()
                typed, size, is_last = self._typed, self._size, self._is_last
            try:
                if size is not None:
                    self._keys.resize(*size)
                    self._forget_size(size)
                is_whole = len(typed) <= _AT_ONCE
                if typed or is_last:
                    taken = self._keys.send(typed, is_last=is_last and is_whole)
                    if self._forget_typed(taken, is_ended=is_last and taken == len(typed)):
                        return
                away_since = None
            except ServerUnreachable:
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _PATIENCE:
                    return  # the output stream reports the error
                time.sleep(_PAUSE)  # nothing announces that an unreachable server is back
            except WindlassError:
                return  # the shell has ended, and the output stream reports its end

    def _forget_size(self, size: tuple[int, int]) -> None:
        with self._changed:
            if self._size == size:
                self._size = None

    def _forget_typed(self, taken: int, *, is_ended: bool) -> bool:
        with self._changed:
            self._typed = self._typed[taken:]
            return is_ended and not self._typed

"""One connection to the server, and the events of an answer that is a stream."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

_STREAM_TIMEOUT = 45.0  # seconds; the server pings a stream every 10 s


class Connection(http.client.HTTPConnection):
    """A connection that sends head and body in one piece: each piece would wake up the server."""

    def __init__(self, host: str, port: int | None, *, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self.buffers = False
        self._buffered: list[bytes] = []

    def send(self, data: Any) -> None:
        if self.buffers:
            self._buffered.append(data)
        else:
            super().send(data)

    def send_held(self) -> None:
        """Send the data that was held back."""
        buffered, self._buffered, self.buffers = b"".join(self._buffered), [], False
        if buffered:
            super().send(buffered)


class SecureConnection(Connection, http.client.HTTPSConnection):
    """The same connection with TLS."""


class StreamEvent(NamedTuple):
    """One server-sent event."""

    name: str
    id: str
    data: bytes


class EventStream:
    """The events of one response. `cut` ends it from any thread."""

    def __init__(self, connection: Connection, response: http.client.HTTPResponse) -> None:
        self._response = response
        self._sock = connection.sock
        self.is_complete = False

    def __iter__(self) -> Iterator[StreamEvent]:
        if self._sock is not None:
            self._sock.settimeout(_STREAM_TIMEOUT)
        name, identity, data = "", "", b""
        for raw in self._response:
            line = raw.rstrip(b"\r\n")
            if not line:
                if name:
                    yield StreamEvent(name, identity, data)
                name, data = "", b""
            elif line.startswith(b"event: "):
                name = line[7:].decode("utf-8", "replace")
            elif line.startswith(b"data: "):
                data += line[6:]
            elif line.startswith(b"id: "):
                identity = line[4:].decode("utf-8", "replace")
        self.is_complete = self._response.isclosed()

    def cut(self) -> None:
        """End the stream now; its reader sees the end, and closes the connection."""
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

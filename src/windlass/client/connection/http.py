"""HTTP connections to the server, and streams of server-sent events."""

from __future__ import annotations

import contextlib
import http.client
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_STREAM_TIMEOUT = 25.0  # seconds; the server pings a stream every 10 s


class Connection(http.client.HTTPConnection):
    """An HTTP connection that sends each request's head and body in one packet.

    Two separate packets would wake up the server twice.
    """

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
        """Send the buffered data."""
        buffered, self._buffered, self.buffers = b"".join(self._buffered), [], False
        if buffered:
            super().send(buffered)


class LocalConnection(Connection):
    """A connection to an embedded server over a Unix socket.

    Only a directory's owner can create a socket in it. Before each connection, `check` raises an
    error unless this user owns the directory. The responding program is therefore a process of this
    user.
    """

    def __init__(self, path: str, check: Callable[[], object], *, timeout: float) -> None:
        super().__init__("localhost", None, timeout=timeout)
        self._path = path
        self._check = check

    def connect(self) -> None:
        """Check the socket's owner, then connect."""
        self._check()
        self.sock = connect_local(self._path, self.timeout)


def connect_local(path: str, timeout: float | None) -> socket.socket:
    """Connect to the Unix socket at a path and return the connection."""
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # `settimeout` would make the socket non-blocking, and a non-blocking `connect` fails
        # instead of waiting when many clients connect at once. The kernel applies the timeout
        # instead.
        if timeout is not None:
            patience = struct.pack("ll", int(timeout), int(timeout % 1 * 1e6))
            local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        local.connect(path)
        local.settimeout(timeout)
    except BlockingIOError:
        local.close()
        raise TimeoutError("timed out") from None
    except BaseException:
        local.close()
        raise
    return local


class SecureConnection(Connection, http.client.HTTPSConnection):
    """A connection over TLS."""


class StreamEvent(NamedTuple):
    """One server-sent event."""

    name: str
    id: str
    data: bytes


class EventStream:
    """The server-sent events of one response. Any thread may end the stream with `cut`."""

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
        """End the stream now. The reading thread then closes the connection."""
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

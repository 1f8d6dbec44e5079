"""HTTP connections, which add limits for unauthenticated clients to uvicorn's protocol.

The limits concern time, memory and the number of connections.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from windlass.model.errors import InvalidArgument
from windlass.model.requests import API_LEVEL_HEADER, VERSION_HEADER, Fault
from windlass.model.versions import API_LEVEL
from windlass.server.web.base import ON_AUTHENTICATED
from windlass.server.web.open_connections import OpenConnections
from windlass.version import __version__

LARGEST_HEAD = 64 * 1024
MOST_HEADERS = 100
_CAUTIOUS_PIECE = 1024
# The response bytes to buffer for a slow client, in addition to the kernel's buffer.
_BUFFER = 32 * 1024


class Connection(HttpToolsProtocol):
    """An HTTP connection that is closed if a request head is too long or arrives too slowly.

    The token is in the request head. Until the head is complete, the sender may be any process that
    can reach the server, and all bytes stay in memory. The size limit also applies to bytes after
    the last piece of a body.
    """

    def __init__(self, *, open_connections: OpenConnections, **settings: Any) -> None:
        super().__init__(**settings)
        self._open_connections = open_connections
        self._is_trusted = False
        self._is_admitted = False
        self._timer: asyncio.TimerHandle | None = None
        self._held = b""  # bytes that were received but not parsed yet
        self._unanswered = 0  # bytes received since the parser last completed a part of a message
        self._flaw = ""  # why the parser was interrupted

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress.

        A connection also counts as idle if only part of a request head has arrived.
        """
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_BUFFER)
        # Trust clients of the Unix socket, because only the home's owner can open it.
        self._is_trusted = transport.get_extra_info("socket").family == socket.AF_UNIX
        self._open_connections.add(self, is_trusted=self._is_trusted)
        self._limit(self._open_connections.head_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        self._held = b""
        self._open_connections.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._timer is None and self.is_idle:
            self._limit(self._open_connections.head_seconds)
        self._held += data
        self._parse()

    def _parse(self) -> None:
        """Parse the received bytes.

        An unauthenticated client's bytes are parsed in small pieces, one request at a time, because
        they can contain thousands of requests, and a parsed request takes far more memory than its
        bytes.
        """
        data, self._held = self._held, b""
        step = len(data) if self._is_trusted else _CAUTIOUS_PIECE
        for start in range(0, len(data), step or 1):
            if self.transport.is_closing():
                return
            if self.pipeline and not self._is_trusted:
                self._held = data[start:]
                self.flow.pause_reading()
                return
            piece = data[start : start + step]
            self._unanswered += len(piece)
            super().data_received(piece)
            if self._unanswered > LARGEST_HEAD and not self.transport.is_closing():
                self.send_400_response(
                    f"The head of the request is larger than {LARGEST_HEAD >> 10} KB."
                )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][ON_AUTHENTICATED] = self._trust

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MOST_HEADERS:
            self._flaw = f"The request has more than {MOST_HEADERS} header lines."
            raise ValueError(self._flaw)  # the parser stops here
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unanswered = 0
        self._limit(None if self._is_trusted else self._open_connections.answer_seconds)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unanswered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unanswered = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._is_trusted:
            self._limit(self._open_connections.head_seconds)
        if self._held:
            self._parse()

    def _trust(self) -> None:
        """Mark the client as authenticated. Raise `Refused` if the server has too many clients."""
        if not self._is_admitted:
            self._open_connections.admit(self)
            self._is_trusted = self._is_admitted = True
            self._limit(None)

    def _limit(self, seconds: float | None) -> None:
        """Close the connection after this number of seconds. None removes the limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        if self.is_idle and self._unanswered and not self.transport.is_closing():
            seconds = self._open_connections.head_seconds
            self._refuse(
                "408 Request Timeout", f"The head of the request took more than {seconds:g} s."
            )
        self.drop()

    def drop(self) -> None:
        """Close the connection, even if the client does not read its responses."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer an invalid HTTP request with an error and close the connection."""
        self._refuse("400 Bad Request", self._flaw or msg)
        self.transport.close()

    def _refuse(self, status: str, message: str) -> None:
        fault = msgspec.json.encode(Fault(code=InvalidArgument.code, message=message))
        head = (
            f"HTTP/1.1 {status}",
            "content-type: application/json",
            f"content-length: {len(fault)}",
            f"{VERSION_HEADER}: {__version__}",
            f"{API_LEVEL_HEADER}: {API_LEVEL}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "\r\n")).encode() + fault)

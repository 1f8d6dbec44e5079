"""Requests and responses over ASGI, including size limits for requests and streamed responses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import BinaryIO, NamedTuple

from windlass.model.requests import Fault
from windlass.model.text.quantities import format_size
from windlass.server.web.base import Message, Receive, Scope, Send

JSON = "application/json"
EVENTS = "text/event-stream"
PING = 10.0  # seconds without an event before a stream sends a keep-alive
OCTETS = "application/octet-stream"
_PIECE = 1 << 20
_SLICE = 32 * 1024
_SMALL = 4 * 1024  # bytes; a smaller remainder is sent without waiting for other responses


class Refused(Exception):
    """Raised to answer a request with an error response."""

    def __init__(self, status: int, fault: Fault, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(fault.message)
        self.status = status
        self.fault = fault
        self.headers = headers or {}


class Answer(NamedTuple):
    """A response whose body is bytes or a stream of bytes."""

    body: bytes | AsyncGenerator[bytes, None]
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = {}


class Request:
    """An HTTP request, which gives access to its headers and body."""

    def __init__(self, scope: Scope, receive: Receive, largest_body: int | None) -> None:
        self._receive = receive
        self._largest = largest_body
        self._scope = scope

    def header(self, name: bytes) -> str:
        """Return the value of a header, or "" if it is missing. `name` must be in lower case."""
        for key, value in self._scope["headers"]:
            if key == name:
                return str(value.decode("latin-1"))
        return ""

    async def body(self) -> bytes:
        """Read the whole body of the request."""
        return b"".join([piece async for piece in self.stream()])

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body of the request as it arrives."""
        length = self.header(b"content-length")
        if self._largest is not None and length.isdecimal() and int(length) > self._largest:
            raise _too_large(self._largest)
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise Refused(
                    400, Fault(code="invalid_argument", message="The request ended early.")
                )
            piece = message.get("body", b"")
            size += len(piece)
            if self._largest is not None and size > self._largest:
                raise _too_large(self._largest)
            if piece:
                yield piece
            if not message.get("more_body"):
                return


def _too_large(largest: int) -> Refused:
    text = f"The request is larger than {format_size(largest)}, which is the limit."
    fault = Fault(code="invalid_argument", message=text, hint="Send less data at once.")
    # "close" stops a client that would keep sending.
    return Refused(413, fault, {"Connection": "close"})


def event(name: str, data: bytes, identity: str = "") -> bytes:
    """Format one server-sent event."""
    first = f"id: {identity}\n" if identity else ""
    return f"{first}event: {name}\ndata: ".encode() + data + b"\n\n"


def file_answer(open_file: Callable[[], BinaryIO]) -> Answer:
    """Return a response that contains a file's content.

    A large file is read in pieces to save memory.
    """
    with open_file() as file:
        size = file.seek(0, os.SEEK_END)
        if size <= _PIECE:
            file.seek(0)
            return Answer(file.read(), media_type=OCTETS)
    pieces = _pieces(open_file, size)
    return Answer(pieces, media_type=OCTETS, headers={"Content-Length": str(size)})


async def _pieces(open_file: Callable[[], BinaryIO], size: int) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(open_file) as file:
        while size > 0:
            piece = await asyncio.to_thread(file.read, min(size, _PIECE))
            if not piece:
                # The file was truncated meanwhile. The client will notice that bytes are missing.
                return
            size -= len(piece)
            yield piece


async def send_answer(
    answer: Answer, receive: Receive, send: Send, large_sends: asyncio.Lock | None = None
) -> None:
    """Send a response. A stream ends when its generator ends or the client disconnects.

    `large_sends` is a lock that all responses of a server share.
    """
    headers = [(b"content-type", answer.media_type.encode())]
    headers += [(name.lower().encode(), text.encode()) for name, text in answer.headers.items()]
    if isinstance(answer.body, bytes):
        headers.append((b"content-length", b"%d" % len(answer.body)))
    start = {"type": "http.response.start", "status": answer.status, "headers": headers}
    await send(start)
    body = _Body(send, large_sends or asyncio.Lock())
    if isinstance(answer.body, bytes):
        await body.send_whole(answer.body)
    else:
        await _send_stream(answer.body, receive, body)


class _Body:
    """Sends a response body in slices, so that memory holds only one slice per slow client.

    The lock allows one slice per iteration of the event loop. Without the lock, fifty fast clients
    would delay all other requests, because copying a slice into the kernel takes up to a
    millisecond.
    """

    def __init__(self, send: Send, large_sends: asyncio.Lock) -> None:
        self._send = send
        self._large_sends = large_sends

    async def send_whole(self, body: bytes) -> None:
        rest = await self._send_slices(body)
        await self._send({"type": "http.response.body", "body": rest})

    async def send_pieces(self, pieces: AsyncGenerator[bytes, None]) -> None:
        async for piece in pieces:
            if rest := await self._send_slices(piece):
                await self._send(_part(rest))
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_slices(self, piece: bytes) -> bytes:
        """Send a piece in slices, except for a small remainder, and return the remainder."""
        sent = 0
        while len(piece) - sent > _SMALL:
            await self._send(_part(b""))  # wait for a slow client before taking the lock
            async with self._large_sends:
                await self._send(_part(piece[sent : sent + _SLICE]))
                await asyncio.sleep(0)
            sent += _SLICE
        return piece[sent:]


def _part(body: bytes) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _send_stream(pieces: AsyncGenerator[bytes, None], receive: Receive, body: _Body) -> None:
    sending = asyncio.ensure_future(body.send_pieces(pieces))
    leaving = asyncio.ensure_future(_hear_leaving(receive))
    try:
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    finally:
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await pieces.aclose()


async def _hear_leaving(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

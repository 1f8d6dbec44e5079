"""Ensures that a client sees the response even if the server did not read the whole request body.

If the server closes a connection while bytes still arrive, the kernel resets the connection, and a
client that is still sending never sees the response. The server therefore first reads and discards
the rest of the body.
"""

from __future__ import annotations

import asyncio
import time

from windlass.server.web.base import Headers, Message, Receive, Send

_SILENCE = 5.0  # seconds without data after which the connection is closed
_LONGEST = 30.0  # seconds for which a client may keep sending a refused body


def has_body(headers: Headers) -> bool:
    """Return whether a request's headers announce a body."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


class Exchange:
    """A request that has a body, and its response.

    The response is completed only after the whole request has been read.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read |= message["type"] != "http.request" or not message.get("more_body")
        return message

    async def send(self, message: Message) -> None:
        is_last = message["type"] == "http.response.body" and not message.get("more_body")
        if is_last and not self._is_read:
            await self._send({**message, "more_body": True})
            await self._read_rest()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)

    async def _read_rest(self) -> None:
        give_up = time.monotonic() + _LONGEST
        while not self._is_read and time.monotonic() < give_up:
            try:
                await asyncio.wait_for(self.receive(), _SILENCE)
            except asyncio.TimeoutError:
                return

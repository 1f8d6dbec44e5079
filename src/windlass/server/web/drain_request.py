"""Answers to requests that were not read to their end: heard before the connection closes.

Who closes a connection while bytes are still coming in has the kernel reset it, and the client,
which is still sending, never sees the answer. So the rest is taken in first, and thrown away.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

_SILENCE = 5.0  # seconds without a byte after which nobody is waited for
_LONGEST = 30.0  # seconds that somebody may go on sending what is refused


def has_body(headers: dict[bytes, bytes]) -> bool:
    """Whether a request says that something follows its head."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


class Exchange:
    """One request with a body, and its answer, which ends when the request does."""

    def __init__(self, receive: Any, send: Any) -> None:
        self._receive = receive
        self._send = send
        self._is_read = False

    async def receive(self) -> Any:
        message = await self._receive()
        self._is_read |= message["type"] != "http.request" or not message.get("more_body")
        return message

    async def send(self, message: Any) -> None:
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

"""Connections: uvicorn's own, with a bound on what one may send before anything comes of it."""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.model.errors import InvalidArgument
from windlass.model.requests import VERSION_HEADER, Fault
from windlass.version import __version__

LARGEST_HEAD = 128 * 1024


class Connection(HttpToolsProtocol):
    """Speaks HTTP, and hangs up on a head that has no end.

    The token is in the head: until that is whole, anyone on this machine may be sending, and
    all of it is kept in memory. The same goes for what follows the last piece of a body.
    """

    _unanswered = 0  # bytes that came in since something last came of them

    def data_received(self, data: bytes) -> None:
        self._unanswered += len(data)
        super().data_received(data)
        if self._unanswered > LARGEST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")

    def on_headers_complete(self) -> None:
        self._unanswered = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unanswered = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unanswered = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request as everything else is refused, and hang up."""
        fault = msgspec.json.encode(Fault(code=InvalidArgument.code, message=msg))
        head = (
            "HTTP/1.1 400 Bad Request",
            "content-type: application/json",
            f"content-length: {len(fault)}",
            f"{VERSION_HEADER}: {__version__}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "\r\n")).encode() + fault)
        self.transport.close()

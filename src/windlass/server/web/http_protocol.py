"""HTTP connections: uvicorn's protocol with a limit on unprocessed bytes."""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from windlass.model.errors import InvalidArgument
from windlass.model.requests import API_LEVEL_HEADER, VERSION_HEADER, Fault
from windlass.model.versions import API_LEVEL
from windlass.version import __version__

LARGEST_HEAD = 128 * 1024


class Connection(HttpToolsProtocol):
    """Speaks HTTP and closes the connection if a request head is too long.

    The token is in the head. Until the head is complete, any process on this machine may be the
    sender, and all bytes stay in memory. The same limit applies to bytes after the last piece of a
    body.
    """

    _unanswered = 0  # bytes received since the parser last completed a part of a message

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
        """Answer data that is not a valid HTTP request with an error, and close the connection."""
        fault = msgspec.json.encode(Fault(code=InvalidArgument.code, message=msg))
        head = (
            "HTTP/1.1 400 Bad Request",
            "content-type: application/json",
            f"content-length: {len(fault)}",
            f"{VERSION_HEADER}: {__version__}",
            f"{API_LEVEL_HEADER}: {API_LEVEL}",
            "connection: close",
        )
        self.transport.write("\r\n".join((*head, "\r\n")).encode() + fault)
        self.transport.close()

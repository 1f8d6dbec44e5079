"""Connections: uvicorn's own, with a bound on what one may send before anything comes of it."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

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

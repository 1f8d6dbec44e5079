"""Limits open connections. Clients without a token get only a few, and only for a short time.

Any process that can reach the port can open connections, and every connection takes one of the
server's file descriptors. A client is called a stranger until one of its requests has been
authenticated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from windlass.model.requests import Fault
from windlass.server.web.messages import Refused

_MOST_STRANGERS = 512
_RESERVED = 64  # the fewest file descriptors to reserve for files
_PER_STRANGERS = 16  # `accepted_at_once` is the limit on strangers divided by this number
_log = logging.getLogger("windlass")


class OpenConnection(Protocol):
    """A client's connection, as seen by the code that limits connections."""

    @property
    def is_idle(self) -> bool:
        """True if no request is in progress."""

    def drop(self) -> None:
        """Close the connection."""


class OpenConnections:
    """The open connections of a server that may open at most `most_files` files.

    >>> OpenConnections(256).most_strangers, OpenConnections(256).most
    (64, 192)
    >>> OpenConnections(16_384).most_strangers
    512
    """

    def __init__(
        self, most_files: int, *, head_seconds: float = 10.0, answer_seconds: float = 40.0
    ) -> None:
        self.most_strangers = max(min(most_files // 4, _MOST_STRANGERS), 1)
        self.most = most_files - max(most_files // 4, min(_RESERVED, most_files // 2))
        self.head_seconds = head_seconds  # seconds in which a request head must arrive
        self.answer_seconds = answer_seconds  # seconds for a stranger's request body and response
        # The unauthenticated connections, oldest first.
        self._strangers: dict[OpenConnection, None] = {}
        self._all: set[OpenConnection] = set()

    @property
    def accepted_at_once(self) -> int:
        """The number of connections to accept per iteration of the event loop.

        The server needs a few iterations to authenticate a connection's first request. The limit on
        strangers must not be reached sooner. Otherwise, a flood of strangers would push out clients
        that have a token before their first request is authenticated.
        """
        return max(self.most_strangers // _PER_STRANGERS, 1)

    @property
    def is_any_busy(self) -> bool:
        """Whether a request, such as a stream, is in progress on any connection."""
        return any(not connection.is_idle for connection in self._all)

    def add(self, connection: OpenConnection, *, is_trusted: bool) -> None:
        """Add a new connection. If there are too many strangers, close the oldest stranger."""
        self._all.add(connection)
        if is_trusted:
            return
        self._strangers[connection] = None
        if len(self._strangers) > self.most_strangers:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.drop()

    def remove(self, connection: OpenConnection) -> None:
        """Remove a closed connection."""
        self._all.discard(connection)
        self._strangers.pop(connection, None)

    def admit(self, connection: OpenConnection) -> None:
        """Mark a connection as authenticated. Raise `Refused` if too many connections are open."""
        self._strangers.pop(connection, None)
        if len(self._all) > self.most:
            self._drop_idle(self._all - self._strangers.keys() - {connection})
        if len(self._all) > self.most:
            fault = Fault(
                code="server",
                message=f"The server has {self.most} open connections, which is its limit.",
                hint="Close some of its clients, or restart the server with a higher limit of "
                "open files (ulimit -n).",
            )
            raise Refused(503, fault, {"Connection": "close"})

    def handle_loop_error(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any], /
    ) -> None:
        """Log an event loop error. If file descriptors run out, close idle connections."""
        if "socket" in context and isinstance(context.get("exception"), OSError):
            _log.error("a connection cannot be accepted: %s", context["exception"])
            self._drop_idle(self._all)
        else:
            loop.default_exception_handler(context)

    @staticmethod
    def _drop_idle(connections: Iterable[OpenConnection]) -> None:
        for connection in list(connections):
            if connection.is_idle:
                connection.drop()

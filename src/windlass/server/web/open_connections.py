"""Limits on open connections: clients without a token get few of them, for a short time.

Any process that reaches the port can open a connection, and each costs the server a descriptor. A
client is a stranger until one of its requests has passed the authentication.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Any, Protocol

from windlass.model.requests import Fault
from windlass.server.web.messages import Refused

_MOST_STRANGERS = 512
_RESERVED = 64  # descriptors for files, at least
_PER_STRANGERS = 16  # see `accepted_at_once`
_log = logging.getLogger("windlass")


class OpenConnection(Protocol):
    """A connection that can be closed."""

    @property
    def is_idle(self) -> bool:
        """Whether no request is in progress."""

    def drop(self) -> None:
        """Close the connection."""


class OpenConnections:
    """The open connections of a server that may open `most_files` files.

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
        self.head_seconds = head_seconds  # for the head of a request
        self.answer_seconds = answer_seconds  # for a stranger's body and response
        self._strangers: dict[OpenConnection, None] = {}  # oldest first
        self._all: set[OpenConnection] = set()

    @property
    def accepted_at_once(self) -> int:
        """The connections to accept per iteration of the event loop.

        It takes a few iterations to read and authenticate the first request of a connection. The
        limit of strangers must not be reached sooner, or a flood of strangers would close the
        connections of clients with a token.
        """
        return max(self.most_strangers // _PER_STRANGERS, 1)

    def add(self, connection: OpenConnection, *, is_trusted: bool) -> None:
        """Add a new connection. If there are too many strangers, drop the oldest one."""
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
        """Mark a connection as authenticated. Raise `Refused` if there are too many."""
        self._strangers.pop(connection, None)
        if len(self._all) > self.most:
            self._drop_idle(self._all - self._strangers.keys() - {connection})
        if len(self._all) > self.most:
            fault = Fault(
                code="server",
                message=f"The server has {self.most} open connections, which is its limit.",
                hint="Close some of its followers, or restart the server with a higher limit of "
                "open files (ulimit -n).",
            )
            raise Refused(503, fault, {"Connection": "close"})

    def handle_loop_error(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, Any], /
    ) -> None:
        """Log an error of the event loop. If it has no descriptors left, drop idle connections."""
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

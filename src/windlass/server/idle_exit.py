"""Ends the embedded server after a while without use. The next client starts a new server.

A server that also listens for other machines keeps running, because their clients cannot start it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable

from windlass.model.errors import InvalidArgument
from windlass.model.text.quantities import parse_duration
from windlass.server.services import Services
from windlass.server.web.listen_address import LISTEN
from windlass.server.web.open_connections import OpenConnections

VARIABLE = "WINDLASS_SERVER_IDLE"
NEVER = "never"
_DEFAULT = 3600.0  # seconds
_FIRST_REQUEST = 10.0  # seconds


def read_limit() -> float | None:
    """Return the number of idle seconds after which the server exits, or None if it never does."""
    text = os.environ.get(VARIABLE, "")
    if text == NEVER or (not text and os.environ.get(LISTEN)):
        return None
    if not text:
        return _DEFAULT
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidArgument(
            f"{VARIABLE}: {error}.", hint=f"Write a duration, such as 1h, or {NEVER}."
        ) from None


async def exit_when_idle(
    services: Services, connections: OpenConnections, limit: float, leave: Callable[[], None]
) -> None:
    """Call `leave` after `limit` seconds without requests, open streams or unfinished work.

    Even with a very short limit, the server waits for the first request of the client that started
    it. Otherwise, the client would start one server after another.
    """
    start = services.last_activity
    while True:
        is_unused = services.last_activity == start
        patience = max(limit, _FIRST_REQUEST) if is_unused else limit
        left = services.last_activity + patience - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
        elif connections.is_any_busy or await asyncio.to_thread(services.has_work):
            await asyncio.sleep(limit)  # the end of the work counts as activity
        else:
            leave()
            return


def start_successor() -> None:
    """Start a new server for this home, because a trial was submitted while this server ended."""
    ignored = os.open(os.devnull, os.O_WRONLY)
    os.set_inheritable(ignored, True)
    program, home, _, *paths = sys.argv
    subprocess.Popen(
        [sys.executable, program, home, str(ignored), *paths],
        stdin=subprocess.DEVNULL,
        cwd="/",
        pass_fds=(ignored,),
        start_new_session=True,
    )

"""Ends the embedded server when nobody has needed it for a while. The next client starts another.

A server that listens for other machines stays, because their clients cannot start it.
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


def read_limit() -> float | None:
    """Return after how many idle seconds the server exits, or None if it stays."""
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
    """Call `leave` after `limit` seconds without a request, an open stream and unfinished work."""
    while True:
        left = services.last_activity + limit - time.monotonic()
        if left > 0:
            await asyncio.sleep(left)
        elif connections.is_any_busy or await asyncio.to_thread(services.has_work):
            await asyncio.sleep(limit)  # their end is an activity
        else:
            leave()
            return


def start_successor() -> None:
    """Start another server of this home, for a trial that was submitted while this one ended."""
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

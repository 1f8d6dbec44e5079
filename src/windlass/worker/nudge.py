"""Telling the server to look at an attempt: a datagram that may be lost."""

from __future__ import annotations

import _socket  # the bare half of `socket`: a third of a supervisor's imports would be the other
import errno
import json
import os
import time

from windlass.worker.files import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG, STATE = "log", "state"


class Nudger:
    """Sends nudges to whatever server `server.json` names just now.

    A server that is not there is no error: when it comes, it reads the files.
    """

    def __init__(self, server_file: str, key: dict[str, Any]) -> None:
        self._server_file = server_file
        self._messages = {
            about: json.dumps({**key, "about": about}).encode() for about in (LOG, STATE)
        }
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._address = ""
        self._seen: tuple[int, int] | None = None
        self._unsent: dict[str, float] = {}  # what is to be told, and not before when

    def nudge(self, about: str, delay: float = 0.0) -> None:
        """Tell the server that the log grew (`LOG`) or that the state changed (`STATE`).

        With a delay, it is told when `retry` is called after that, unless there is news before.
        """
        self._unsent[about] = time.monotonic() + delay if delay else 0.0
        self.retry()

    @property
    def is_pending(self) -> bool:
        """Whether something is still to be told, so that `retry` should be called shortly."""
        return bool(self._unsent)

    def retry(self) -> None:
        """Send what is due."""
        now = time.monotonic()
        due = [about for about, not_before in self._unsent.items() if not_before <= now]
        if due:
            self._find_server()
        for about in due:
            if self._send(about):
                del self._unsent[about]

    def _find_server(self) -> None:
        try:
            found = os.stat(self._server_file)
        except OSError:
            self._address, self._seen = "", None
            return
        if self._seen != (found.st_mtime_ns, found.st_ino):
            self._seen = (found.st_mtime_ns, found.st_ino)
            self._address = str((read_json(self._server_file) or {}).get("nudge") or "")

    def _send(self, about: str) -> bool:
        """Whether there is nothing left to do about it."""
        if not self._address:
            return True
        try:
            self._socket.sendto(self._messages[about], self._address)
        except OSError as error:
            return error.errno not in (errno.EAGAIN, errno.ENOBUFS)
        return True

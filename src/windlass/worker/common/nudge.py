"""Nudges: datagrams that tell the server to read an attempt's files.

A lost nudge does no harm, because the files contain all data.
"""

from __future__ import annotations

import _socket  # importing `socket` would add half to a supervisor's import time
import errno
import json
import os
import time

from windlass.worker.common.file_reads import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG, STATE, METRICS, CHECKPOINT = "log", "state", "metrics", "checkpoint"

_PATIENCE = 0.02  # seconds that a program may wait to send a nudge


class Nudger:
    """Sends nudges to the server whose socket is currently named in `server.json`.

    If no server is running, nothing is lost, because a server reads the files when it starts.
    """

    def __init__(self, server_file: str, key: dict[str, Any]) -> None:
        self._server = ServerAddress(server_file)
        self._messages = {
            about: json.dumps({**key, "about": about}).encode() for about in (LOG, STATE, METRICS)
        }
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._unsent: dict[str, float] = {}  # each pending nudge and the earliest time to send it

    def nudge(self, about: str, delay: float = 0.0) -> None:
        """Tell the server that the log (`LOG`), the state (`STATE`) or the metrics have changed.

        A delayed nudge is sent by the first `retry` after the delay.
        """
        self._unsent[about] = time.monotonic() + delay if delay else 0.0
        self.retry()

    @property
    def is_pending(self) -> bool:
        """Return whether nudges are waiting to be sent, so that `retry` must be called soon."""
        return bool(self._unsent)

    def retry(self) -> None:
        """Send the nudges that are due."""
        now = time.monotonic()
        due = [about for about, not_before in self._unsent.items() if not_before <= now]
        address = self._server.find() if due else ""
        for about in due:
            if self._send(about, address):
                del self._unsent[about]

    def _send(self, about: str, address: str) -> bool:
        """Send a nudge to the socket at `address`. Return False if it must be sent again."""
        if not address:
            return True
        try:
            self._socket.sendto(self._messages[about], address)
        except OSError as error:
            return error.errno not in (errno.EAGAIN, errno.ENOBUFS)
        return True


class ServerAddress:
    """The address of the server's nudge socket, read from `server.json`.

    The file is reread when it changes.
    """

    def __init__(self, server_file: str) -> None:
        self._file = server_file
        self._cached: tuple[int, int, str] | None = None  # mtime, inode, address

    def find(self) -> str:
        """Return the path of the server's socket, or "" if no server is running."""
        try:
            status = os.stat(self._file)
        except OSError:
            return ""
        cached = self._cached
        if cached is None or cached[:2] != (status.st_mtime_ns, status.st_ino):
            try:
                address = str((read_json(self._file) or {}).get("nudge") or "")
            except OSError:
                return ""  # a nudge may get lost
            cached = self._cached = (status.st_mtime_ns, status.st_ino, address)
        return cached[2]


def send_once(message: bytes, address: str) -> None:
    """Send one nudge and close the socket. Processes that run user code use this function."""
    if not address:
        return
    try:
        sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    except OSError:
        return  # no free descriptor
    try:
        sender.settimeout(_PATIENCE)
        sender.sendto(message, address)
    except OSError:
        pass  # a nudge may get lost
    finally:
        sender.close()

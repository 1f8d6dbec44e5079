"""Nudges: datagrams that make the server read the files of an attempt. They may get lost."""

from __future__ import annotations

import _socket  # `socket` would add half to the import time of a supervisor
import errno
import json
import os
import time

from windlass.worker.common.file_reads import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG, STATE, METRICS, CHECKPOINT = "log", "state", "metrics", "checkpoint"

_PATIENCE = 0.02  # seconds that a program waits at most when many processes send nudges


class Nudger:
    """Sends nudges to the server that `server.json` names at the moment.

    A missing server is not an error: a server reads the files when it starts.
    """

    def __init__(self, server_file: str, key: dict[str, Any]) -> None:
        self._server = ServerAddress(server_file)
        self._messages = {
            about: json.dumps({**key, "about": about}).encode() for about in (LOG, STATE, METRICS)
        }
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._unsent: dict[str, float] = {}  # pending nudges, and the earliest time to send each

    def nudge(self, about: str, delay: float = 0.0) -> None:
        """Notify the server that the log (`LOG`), the state (`STATE`) or the metrics have changed.

        A delayed nudge is sent by the first `retry` after the delay, or together with an earlier
        one.
        """
        self._unsent[about] = time.monotonic() + delay if delay else 0.0
        self.retry()

    @property
    def is_pending(self) -> bool:
        """Return whether nudges are pending, so that `retry` should be called soon."""
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
        """Send a nudge; return false if it has to be sent again."""
        if not address:
            return True
        try:
            self._socket.sendto(self._messages[about], address)
        except OSError as error:
            return error.errno not in (errno.EAGAIN, errno.ENOBUFS)
        return True


class ServerAddress:
    """The address for nudges from `server.json`, read again when the file changes."""

    def __init__(self, server_file: str) -> None:
        self._file = server_file
        self._cached: tuple[int, int, str] | None = None  # mtime, inode, address

    def find(self) -> str:
        """Return the path of the server's socket; empty if no server runs."""
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
    """Send one nudge and close the socket, for processes that run user code."""
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

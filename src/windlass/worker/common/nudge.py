"""Nudges: datagrams that make the server look at an attempt. A nudge may be lost."""

from __future__ import annotations

import _socket  # the bare half of `socket`: a third of a supervisor's imports would be the other
import errno
import json
import os
import time

from windlass.worker.common.atomic_files import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LOG, STATE, METRICS, CHECKPOINT = "log", "state", "metrics", "checkpoint"

_PATIENCE = 0.02  # seconds that a program is held up, at most, when many nudge at once


class Nudger:
    """Sends nudges to whatever server `server.json` names just now.

    A server that is not there is no error: when it comes, it reads the files.
    """

    def __init__(self, server_file: str, key: dict[str, Any]) -> None:
        self._server = ServerAddress(server_file)
        self._messages = {
            about: json.dumps({**key, "about": about}).encode() for about in (LOG, STATE, METRICS)
        }
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._unsent: dict[str, float] = {}  # what is to be told, and not before when

    def nudge(self, about: str, delay: float = 0.0) -> None:
        """Tell the server that the log grew (`LOG`), the state changed (`STATE`), or of metrics.

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
        address = self._server.find() if due else ""
        for about in due:
            if self._send(about, address):
                del self._unsent[about]

    def _send(self, about: str, address: str) -> bool:
        """Whether there is nothing left to do about it."""
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
        self._cached: tuple[int, int, str] | None = None  # time and inode of the file; the address

    def find(self) -> str:
        """The path of the server's socket; empty if there is no server."""
        try:
            status = os.stat(self._file)
        except OSError:
            return ""
        cached = self._cached
        if cached is None or cached[:2] != (status.st_mtime_ns, status.st_ino):
            address = str((read_json(self._file) or {}).get("nudge") or "")
            cached = self._cached = (status.st_mtime_ns, status.st_ino, address)
        return cached[2]


def send_once(message: bytes, address: str) -> None:
    """Send one nudge and leave nothing open: for processes whose descriptors are not ours."""
    if not address:
        return
    try:
        sender = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    except OSError:
        return  # no descriptor is left
    try:
        sender.settimeout(_PATIENCE)
        sender.sendto(message, address)
    except OSError:
        pass  # it may be lost
    finally:
        sender.close()

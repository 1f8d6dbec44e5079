"""Uploads an attempt's growing files, such as the log, to the server.

Each request contains parts of several files. The server responds with the number of bytes that it
has of each file, and the next request continues from there. The agent therefore never resends
stored bytes, but does resend bytes that the server lost.
"""

from __future__ import annotations

import json
import os

from windlass.worker.common.file_reads import file_size, is_file, read_file, read_json
from windlass.worker.common.metrics_file import FILE as METRICS
from windlass.worker.common.metrics_file import NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from windlass.worker.agent.http_channel import Channel

LOG, STATE, EXIT = "log", "state.json", "exit.json"
# used if the supervisor wrote no exit record
LOST = {"reason": "Lost", "message": "its supervisor died"}
_LEFT_BEHIND = ("result.json", "result.pkl", "error.json", "error.pkl")
_MOST = 4 << 20  # bytes per request


class FileUploads:
    """Uploads an attempt's files and tracks how much of each file the server has."""

    def __init__(self, channel: Channel, base: str, attempt_dir: str) -> None:
        self._channel = channel
        self._base = base
        self._dir = attempt_dir
        self._taken: dict[str, int] = {}  # the number of bytes that the server has, by file name
        self._state: bytes = b""
        self.trouble = ""  # why uploads are incomplete, shown to the user

    def ship(self, deadline: float | None = None) -> None:
        """Upload all data that the attempt's growing files contain at this moment."""
        while self._ship_some(deadline):
            pass

    def ship_last(self, deadline: float | None = None) -> None:
        """Upload all remaining files of the attempt except the exit record.

        `ship_end` uploads the exit record afterwards.
        """
        self.ship(deadline)
        for name in _LEFT_BEHIND:
            path = self._path(name)
            if is_file(path):
                self._ship_whole(name, path, deadline)

    def ship_end(self, deadline: float | None = None, *, is_taken_away: bool = False) -> None:
        """Upload the attempt's exit record, after which the server accepts nothing more.

        `is_taken_away` is true if Kubernetes stopped the agent.
        """
        record = {**(read_json(self._path(EXIT)) or LOST), "taken_away": is_taken_away}
        self._channel.ask_json("POST", f"{self._base}/end", record, deadline=deadline)

    def _ship_some(self, deadline: float | None) -> bool:
        """Send one request that contains new parts of files. Return whether more data remains."""
        parts: list[tuple[str, int, bytes]] = []
        left = _MOST
        # Programs write metric names before the values that use them, so upload them in that order.
        until = {name: self._size(name) for name in (METRICS, LOG)}
        until[NAMES] = self._size(NAMES)
        for name in (NAMES, METRICS, LOG):
            start = self._taken.get(name, 0)
            if until[name] > start and left > 0:
                data = self._read(name, start, min(until[name] - start, left))
                parts.append((name, start, data))
                left -= len(data)
        state = self._read_state()
        if state and state != self._state:
            parts.append((STATE, 0, state))
        if not parts:
            return False
        head = json.dumps([[name, start, len(data)] for name, start, data in parts]).encode()
        body = b"".join((head, b"\n", *(data for _, _, data in parts)))
        answer = json.loads(
            self._channel.ask("POST", f"{self._base}/ship", body, deadline=deadline)
        )
        for name, size in answer["sizes"].items():
            self._taken[name] = size
        if state:
            self._state = state
        return any(self._taken.get(name, 0) < until[name] for name in until)

    def _ship_whole(self, name: str, path: str, deadline: float | None) -> None:
        from windlass.worker.agent.http_channel import FileBody

        self._channel.send(self._base, f"files/{name}", FileBody(path), deadline=deadline)

    def _read_state(self) -> bytes:
        state = read_file(self._path(STATE)) or b""
        try:
            return _with_message(state, self.trouble) if state and self.trouble else state
        except ValueError:
            return b""

    def _read(self, name: str, start: int, size: int) -> bytes:
        with open(self._path(name), "rb") as file:
            file.seek(start)
            return file.read(size)

    def _size(self, name: str) -> int:
        return file_size(self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self._dir, name)


def _with_message(state: bytes, message: str) -> bytes:
    """Replace the message in a supervisor's state file with a more important one.

    >>> _with_message(b'{"stage": "running", "message": ""}', "the disk is full")
    b'{"stage": "running", "message": "the disk is full"}'
    """
    return json.dumps({**json.loads(state), "message": message}).encode()

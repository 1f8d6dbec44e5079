"""Unix sockets that belong to a Windlass home. Other users cannot open the sockets' directories."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
from pathlib import Path

_LONGEST = 100  # bytes; the limit is 104 on macOS and 107 on Linux
_BACKLOG = 1024


class OwnSocket:
    """A bound Unix socket in the folder `run/` of a home.

    If the path there is too long or the file system does not support sockets, the socket is in a
    new temporary directory. Other users cannot open either directory.
    """

    def __init__(self, home: Path, name: str, kind: socket.SocketKind) -> None:
        self.socket = socket.socket(socket.AF_UNIX, kind)
        self._elsewhere: str | None = None
        self.path = str(home / "run" / name)
        if len(os.fsencode(self.path)) > _LONGEST or not self._bind():
            self._elsewhere = tempfile.mkdtemp(prefix="windlass-")
            self.path = os.path.join(self._elsewhere, name)
            self.socket.bind(self.path)
        os.chmod(self.path, 0o600)
        if kind == socket.SOCK_STREAM:
            self.socket.listen(_BACKLOG)  # before other processes learn the address

    def _bind(self) -> bool:
        path = Path(self.path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        try:
            self.socket.bind(self.path)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the socket and remove its files."""
        self.socket.close()
        Path(self.path).unlink(missing_ok=True)
        if self._elsewhere is not None:
            with contextlib.suppress(OSError):
                os.rmdir(self._elsewhere)

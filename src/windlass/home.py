"""The paths of the files in the Windlass home directory.

The module also checks that other users cannot change the directory. It opens no files.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.directory_owner import check_private
from windlass.model.errors import ServerError


class Home:
    """The Windlass home directory: `WINDLASS_HOME`, or `~/.windlass` if that is not set.

    >>> Home(Path("/data/wl")).database
    PosixPath('/data/wl/windlass.db')
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls) -> Home:
        """Return this process's home. Raise an error if other users can change it."""
        named = os.environ.get("WINDLASS_HOME")
        path = Path(named).expanduser().absolute() if named else Path.home() / ".windlass"
        return cls(path).check()

    def check(self) -> Home:
        """Raise an error if another user owns the home, can write to it, or can replace it.

        In a pod, this method checks nothing, because the home is a volume of a pod without other
        users.
        """
        if "WINDLASS_AWAY" not in os.environ:
            check_private(str(self.path))
        return self

    def check_socket(self, path: str) -> None:
        """Raise an error if another user could have created the socket at this path.

        The server can create its socket in a directory outside the home. If this directory was
        deleted, another user could have created it again and put a socket of their own there.
        """
        self.check()
        if path.startswith((f"{self.path}/", f"{os.path.realpath(self.path)}/")):
            return
        try:
            check_private(os.path.dirname(path))
        except ServerError as error:
            raise ConnectionRefusedError(error.message) from error

    def make(self) -> Home:
        """Create the home, readable only by its owner."""
        self.check()
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self.check()

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    @property
    def server_lock(self) -> Path:
        return self.path / "server.lock"

    @property
    def identity_file(self) -> Path:
        return self.path / "home.json"

    @property
    def start_lock(self) -> Path:
        return self.path / "start.lock"

    @property
    def server_log(self) -> Path:
        return self.path / "server.log"

    @property
    def token(self) -> Path:
        return self.path / "token"

    @property
    def database(self) -> Path:
        return self.path / "windlass.db"

    @property
    def blobs(self) -> Path:
        return self.path / "blobs"

    @property
    def private(self) -> Path:
        return self.path / "private"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    @property
    def cache(self) -> Path:
        return self.path / "cache"

    @property
    def kubernetes_login(self) -> Path:
        return self.path / "kubernetes.json"

    def __repr__(self) -> str:
        return f"Home({str(self.path)!r})"

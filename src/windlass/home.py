"""Paths in the state directory, and the check that only its owner can change it.

Nothing here opens a file.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.directory_owner import check_private
from windlass.model.errors import ServerError


class Home:
    """The state directory: `WINDLASS_HOME`, or `~/.windlass`.

    >>> Home(Path("/data/wl")).database
    PosixPath('/data/wl/windlass.db')
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls) -> Home:
        """The home this process belongs to. Raises if other users can change the directory."""
        named = os.environ.get("WINDLASS_HOME")
        path = Path(named).expanduser().absolute() if named else Path.home() / ".windlass"
        return cls(path).check()

    def check(self) -> Home:
        """Raise if another user owns the directory, can write to it, or can replace it.

        The directory of a trial in a pod is a volume of the pod, which has no other users.
        """
        if "WINDLASS_AWAY" not in os.environ:
            check_private(str(self.path))
        return self

    def check_socket(self, path: str) -> None:
        """Raise unless only the owner of the home can create a socket at this path.

        A directory outside of the home may have been deleted, and another user may have created it
        again. The socket of the server is then gone.
        """
        self.check()
        if path.startswith((f"{self.path}/", f"{os.path.realpath(self.path)}/")):
            return
        try:
            check_private(os.path.dirname(path))
        except ServerError as error:
            raise ConnectionRefusedError(error.message) from error

    def make(self) -> Home:
        """Create the directory, readable by its owner only."""
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

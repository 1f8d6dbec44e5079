"""Paths in the state directory. Nothing here opens a file."""

from __future__ import annotations

import os
from pathlib import Path


class Home:
    """The state directory: `WINDLASS_HOME`, or `~/.windlass`.

    >>> Home(Path("/data/wl")).database
    PosixPath('/data/wl/windlass.db')
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def find(cls) -> Home:
        """The home this process belongs to."""
        named = os.environ.get("WINDLASS_HOME")
        return cls(Path(named).expanduser().absolute() if named else Path.home() / ".windlass")

    def make(self) -> Home:
        """Create the directory, readable by its owner only."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self

    @property
    def server_file(self) -> Path:
        return self.path / "server.json"

    @property
    def server_lock(self) -> Path:
        return self.path / "server.lock"

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

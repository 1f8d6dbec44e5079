"""Files that are on their way in, and may be large."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windlass.server.room import check_room

LOOK_EVERY = 16 << 20  # bytes that come between two looks at the room that is left
SYNC_EVERY = 64 << 20  # bytes that are left in memory: all of a large file would take minutes


class Coming:
    """A file that is on its way in; on the disk as it comes, so that its end takes no time."""

    def __init__(self, path: Path, hasher: Any = None) -> None:
        self._folder = path.parent
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(handle, "wb")
        self._hasher = hasher
        self._looked = self._synced = 0
        self.size = 0

    def __enter__(self) -> Coming:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, piece: bytes) -> None:
        """Write what came; `NoSpace` once too little of the disk is left."""
        if self._hasher is not None:
            self._hasher.update(piece)
        self.size += self._file.write(piece)
        if self.size - self._looked >= LOOK_EVERY:
            self._looked = self.size
            check_room(self._folder)
        if self.size - self._synced >= SYNC_EVERY:
            self._synced = self.size
            self.settle()

    def settle(self) -> None:
        """Have on the disk what came by now."""
        self._file.flush()
        os.fsync(self._file.fileno())

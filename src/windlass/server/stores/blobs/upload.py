"""Receives uploads of large files, writing and syncing them piece by piece."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from windlass.server.stores.blobs.disk_space import check_disk_space

CHECK_EVERY = 16 << 20  # bytes between checks of the free disk space
SYNC_EVERY = 64 << 20  # bytes between syncs; a single sync of a large file would take minutes


class IncomingFile:
    """A file that is being uploaded. It is synced as it arrives, so that the last sync is fast."""

    def __init__(self, path: Path, hasher: Any = None) -> None:
        self._folder = path.parent
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(handle, "wb")
        self._hasher = hasher
        self._looked = self._synced = 0
        self.size = 0

    def __enter__(self) -> IncomingFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, piece: bytes) -> None:
        """Append a piece to the uploaded file. Raise `NoSpace` if too little disk space is left."""
        if self._hasher is not None:
            self._hasher.update(piece)
        self.size += self._file.write(piece)
        if self.size - self._looked >= CHECK_EVERY:
            self._looked = self.size
            check_disk_space(self._folder)
        if self.size - self._synced >= SYNC_EVERY:
            self._synced = self.size
            self.settle()

    def settle(self) -> None:
        """Sync the bytes of the upload that have arrived."""
        self._file.flush()
        os.fsync(self._file.fileno())

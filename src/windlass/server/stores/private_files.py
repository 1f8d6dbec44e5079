"""Private files: the secrets of a trial in one file that only its owner can read.

The server deletes the file at the end of the trial, and no record contains its values.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container
from pathlib import Path

import msgspec

from windlass.model.requests import Private
from windlass.worker.common.atomic_files import write_bytes


class PrivateFiles:
    """The files of all trials that have not ended, by uid.

    >>> import tempfile
    >>> files = PrivateFiles(Path(tempfile.mkdtemp()))
    >>> files.keep("0" * 32, Private(secrets={"TOKEN": "hush"}))
    >>> files.erase("0" * 32)
    >>> files.erase("0" * 32)
    """

    def __init__(self, path: Path) -> None:
        self._root = path
        self._newest, self._digest = "", b""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, uid: str) -> Path:
        """The path of a trial's file."""
        return self._root / uid

    def keep(self, uid: str, private: Private) -> None:
        """Write the file; durable before the trial is."""
        content = msgspec.json.encode(private)
        digest = hashlib.sha256(content).digest()
        if digest != self._digest or not self._link(uid):
            write_bytes(f"{self._root}/{uid}", content, durable=True)
        self._newest, self._digest = uid, digest

    def erase(self, uid: str) -> None:
        """Forget what the trial knew."""
        self.path(uid).unlink(missing_ok=True)

    def _link(self, uid: str) -> bool:
        """Give the newest file another name: of many that are submitted together all are alike."""
        try:
            os.link(f"{self._root}/{self._newest}", f"{self._root}/{uid}")
        except OSError:
            return False  # its trial has ended, or there are no such links here
        return True

    def sweep(self, living: Container[str]) -> None:
        """Erase the files of trials that are no more, or never came to be."""
        for path in self._root.iterdir():
            if path.name not in living:
                path.unlink(missing_ok=True)

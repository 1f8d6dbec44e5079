"""Private files: the secrets of a trial in one file that only its owner can read.

The server deletes the file at the end of the trial, and no record contains its values.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Container, Sequence
from pathlib import Path

import msgspec

from windlass.model.requests import Private
from windlass.worker.common.atomic_files import write_bytes


class PrivateFiles:
    """The files of all trials that have not ended, by uid.

    >>> import tempfile
    >>> files = PrivateFiles(Path(tempfile.mkdtemp()))
    >>> files.keep(["0" * 32], Private(secrets={"TOKEN": "hush"}))
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

    def keep(self, uids: Sequence[str], private: Private) -> None:
        """Write the file of each trial durably, before the trial is stored."""
        content = msgspec.json.encode(private)
        digest = hashlib.sha256(content).digest()
        for uid in uids:
            if digest != self._digest or not self._link(uid):
                write_bytes(f"{self._root}/{uid}", content, durable=True)
            self._newest, self._digest = uid, digest

    def erase(self, uid: str) -> None:
        """Delete the file of a trial."""
        self.path(uid).unlink(missing_ok=True)

    def _link(self, uid: str) -> bool:
        """Link the newest file under another name; the caller has checked that it is equal."""
        try:
            os.link(f"{self._root}/{self._newest}", f"{self._root}/{uid}")
        except OSError:
            return False  # the other trial has ended, or the file system has no links
        return True

    def sweep(self, living: Container[str]) -> None:
        """Delete the files of trials that have ended or were never stored."""
        for path in self._root.iterdir():
            if path.name not in living:
                path.unlink(missing_ok=True)

"""Private files, which keep a trial's secrets readable only by the home's owner.

The server deletes a trial's file when the trial ends. No other record contains the secret values.
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
    """The private files of all unfinished trials, by trial uid.

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
        """Return the path of a trial's private file."""
        return self._root / uid

    def keep(self, uids: Sequence[str], private: Private) -> None:
        """Write a private file for each trial durably, before the trials are stored."""
        content = msgspec.json.encode(private)
        digest = hashlib.sha256(content).digest()
        for uid in uids:
            if digest != self._digest or not self._link(uid):
                write_bytes(f"{self._root}/{uid}", content, durable=True)
            self._newest, self._digest = uid, digest

    def erase(self, uid: str) -> None:
        """Delete the private file of a trial."""
        self.path(uid).unlink(missing_ok=True)

    def _link(self, uid: str) -> bool:
        """Hard-link the newest private file under the name of a second trial's file.

        The caller ensures that both trials have equal private data.
        """
        try:
            os.link(f"{self._root}/{self._newest}", f"{self._root}/{uid}")
        except OSError:
            return False  # the first trial has ended, or the file system has no hard links
        return True

    def sweep(self, living: Container[str]) -> None:
        """Delete the private files of trials that have ended or were never stored."""
        for path in self._root.iterdir():
            if path.name not in living:
                path.unlink(missing_ok=True)

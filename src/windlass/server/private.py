"""What a trial may know and no record may: one owner-only file a trial, erased at its end."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path

import msgspec

from windlass.model.wire import Private
from windlass.worker.files import write_bytes


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
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def path(self, uid: str) -> Path:
        """Where the file of a trial lies."""
        return self._root / uid

    def keep(self, uid: str, private: Private) -> None:
        """Write the file; durable before the trial is."""
        write_bytes(f"{self._root}/{uid}", msgspec.json.encode(private), durable=True)

    def erase(self, uid: str) -> None:
        """Forget what the trial knew."""
        self.path(uid).unlink(missing_ok=True)

    def sweep(self, living: Container[str]) -> None:
        """Erase the files of trials that are no more, or never came to be."""
        for path in self._root.iterdir():
            if path.name not in living:
                path.unlink(missing_ok=True)

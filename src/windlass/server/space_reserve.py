"""A reserve of disk space that lets the server delete trials even on a full disk.

Deleting trials needs disk space, because the database transaction is written before any file is
deleted. On a full disk, the server first deletes the reserve and then repeats the deletion of the
trials. It recreates the reserve once there is enough space.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from pathlib import Path

from windlass.worker.common.free_space import allocate, is_full

_SIZE = 16 << 20  # bytes; on a small disk, a twentieth of the disk
_FILES = 16  # empty files that reserve inodes, because a file system may run out of inodes
_NEEDED = 1 << 20  # bytes that a server needs to start
_log = logging.getLogger("windlass")


class SpaceReserve:
    """The folder `reserve` of a home.

    It contains one large file, which takes up space, and empty files, which take up inodes. The
    environment variable `WINDLASS_SPACE_RESERVE` sets the size in bytes. The value 0 turns the
    reserve off.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / "reserve"

    def release_if_full(self) -> None:
        """Release the reserve if the disk has too little space for the server to start."""
        if is_full(str(self._home), _NEEDED):
            self.release()

    def release(self) -> bool:
        """Delete the reserve. Return False if there is none."""
        if not self._folder.is_dir():
            return False
        with contextlib.suppress(OSError):
            shutil.rmtree(self._folder)
        _log.warning("the disk is full: the reserve of the home is released")
        return True

    def refill(self) -> None:
        """Create the reserve if it is missing and would take at most a third of the free space."""
        unfinished = self._folder.with_name(".reserve")
        try:
            size = 0 if self._folder.is_dir() else self._size()
            if size and self._fits(size):
                shutil.rmtree(unfinished, ignore_errors=True)
                unfinished.mkdir(mode=0o700)
                allocate(str(unfinished / "space"), size)
                for number in range(_FILES):
                    (unfinished / f"file-{number}").touch()
                unfinished.rename(self._folder)
        except OSError as error:
            _log.warning("the reserve of disk space cannot be made: %s", error)
            shutil.rmtree(unfinished, ignore_errors=True)

    def _fits(self, size: int) -> bool:
        disk = os.statvfs(self._home)
        has_inodes = not disk.f_files or disk.f_favail >= 3 * _FILES
        return has_inodes and disk.f_bavail * disk.f_frsize >= 3 * size

    def _size(self) -> int:
        disk = os.statvfs(self._home)
        chosen = os.environ.get("WINDLASS_SPACE_RESERVE", "")
        most = int(chosen) if chosen.isdecimal() else _SIZE
        return min(most, disk.f_blocks * disk.f_frsize // 20)

"""A shell's output, which clients read by position. Only the newest output is kept.

The bytes are stored in files of limited size, each named by the position of its first byte.
"""

from __future__ import annotations

import os

from windlass.worker.common.atomic_files import make_folder
from windlass.worker.common.file_reads import regular_only

TYPE_CHECKING = False

FOLDER = "terminal"  # the folder's name in the attempt's directory
PIECE = 1 << 20
PIECES = 16


class Writer:
    """Appends a shell's output to the newest file, deleting the oldest if there are too many."""

    def __init__(self, attempt_dir: str) -> None:
        self._folder = os.path.join(attempt_dir, FOLDER)
        make_folder(self._folder, 0o700)
        self._end = 0
        self._left = 0
        self._fd: int | None = None

    def add(self, data: bytes) -> None:
        """Append bytes of output.

        If the disk is full, drop them, because a terminal cannot wait.
        """
        view = memoryview(data)
        try:
            while view:
                if not self._left:
                    self._begin_piece()
                assert self._fd is not None  # noqa: S101 -- `_begin_piece` has opened a file
                written = os.write(self._fd, view[: self._left])
                self._end += written
                self._left -= written
                view = view[written:]
        except OSError:
            pass

    def close(self) -> None:
        """Close the current file of the shell's output."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._left = 0

    def _begin_piece(self) -> None:
        self.close()
        path = _path(self._folder, self._end)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._left = PIECE
        for start in _pieces(self._folder)[:-PIECES]:
            os.unlink(_path(self._folder, start))


def read(attempt_dir: str, position: int, most: int) -> tuple[int, bytes]:
    """Return up to `most` bytes of a shell's output, and the position of the first byte.

    The result normally starts at `position`. If the output there has already been deleted, the
    result starts at a later position. If there is no output at `position` yet, the result is empty.

    >>> import tempfile
    >>> home = tempfile.mkdtemp()
    >>> Writer(home).add(b"hello")
    >>> read(home, 1, 3), read(home, 5, 10)
    ((1, b'ell'), (5, b''))
    """
    folder = os.path.join(attempt_dir, FOLDER)
    for start in _pieces(folder):
        if position >= start + PIECE:
            continue
        first = max(position, start)
        try:
            fd = regular_only(_path(folder, start), os.O_RDONLY)
        except FileNotFoundError:
            continue  # the file was deleted after the folder was listed
        try:
            data = os.pread(fd, most, first - start)
        finally:
            os.close(fd)
        if data:
            return first, data
    return position, b""


def end(attempt_dir: str) -> int:
    """Return the position after the last byte of a shell's output."""
    folder = os.path.join(attempt_dir, FOLDER)
    pieces = _pieces(folder)
    if not pieces:
        return 0
    try:
        return pieces[-1] + os.path.getsize(_path(folder, pieces[-1]))
    except FileNotFoundError:
        return end(attempt_dir)  # much output was written since then, so this file was deleted


def _pieces(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except FileNotFoundError:
        return []


def _path(folder: str, start: int) -> str:
    return os.path.join(folder, f"{start:020d}")

"""Shell output: bytes addressed by position, with a limit on how many are kept.

They lie in a folder, in pieces that are named for the position of their first byte.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False

FOLDER = "terminal"  # in the directory of the attempt
PIECE = 1 << 20
PIECES = 16


class Writer:
    """Adds what comes, and lets go of the oldest piece for every new one beyond so many."""

    def __init__(self, attempt_dir: str) -> None:
        self._folder = os.path.join(attempt_dir, FOLDER)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        self._end = 0
        self._room = 0
        self._fd: int | None = None

    def add(self, data: bytes) -> None:
        """Keep more of it. What a full disk has no room for is lost: a terminal does not wait."""
        view = memoryview(data)
        try:
            while view:
                if not self._room:
                    self._begin_piece()
                assert self._fd is not None  # noqa: S101 -- there is a piece with room
                written = os.write(self._fd, view[: self._room])
                self._end += written
                self._room -= written
                view = view[written:]
        except OSError:
            pass

    def close(self) -> None:
        """Nothing more will come."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._room = 0

    def _begin_piece(self) -> None:
        self.close()
        path = _path(self._folder, self._end)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._room = PIECE
        for start in _pieces(self._folder)[:-PIECES]:
            os.unlink(_path(self._folder, start))


def read(attempt_dir: str, place: int, most: int) -> tuple[int, bytes]:
    """Bytes from a place on, up to so many, and where the first of them stands.

    That is further on if what was there is kept no longer. No bytes: nothing is there yet.

    >>> import tempfile
    >>> home = tempfile.mkdtemp()
    >>> Writer(home).add(b"hello")
    >>> read(home, 1, 3), read(home, 5, 10)
    ((1, b'ell'), (5, b''))
    """
    folder = os.path.join(attempt_dir, FOLDER)
    for start in _pieces(folder):
        if place >= start + PIECE:
            continue
        first = max(place, start)
        try:
            fd = os.open(_path(folder, start), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it was let go of meanwhile
        try:
            data = os.pread(fd, most, first - start)
        finally:
            os.close(fd)
        if data:
            return first, data
    return place, b""


def end(attempt_dir: str) -> int:
    """The place after the last byte."""
    folder = os.path.join(attempt_dir, FOLDER)
    pieces = _pieces(folder)
    if not pieces:
        return 0
    try:
        return pieces[-1] + os.path.getsize(_path(folder, pieces[-1]))
    except FileNotFoundError:
        return end(attempt_dir)  # many more came meanwhile


def _pieces(folder: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(folder) if name.isdecimal())
    except FileNotFoundError:
        return []


def _path(folder: str, start: int) -> str:
    return os.path.join(folder, f"{start:020d}")

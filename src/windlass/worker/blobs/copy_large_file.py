"""Copies large files as fast as the disk allows, by reading, hashing and writing in parallel."""

from __future__ import annotations

import errno
import os
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

    from windlass.worker.blobs.digest import Kind

_PIECE = 8 << 20  # bytes per write; smaller writes would be slower
_AHEAD = 2  # pieces; one is read while the other is written
_HASHED = 2 << 20  # bytes per read if a file is only hashed
_BLOCK = 4096  # direct I/O requires multiples of this size


class FileCopy:
    """Copies one large file with two threads: one reads and hashes, the other writes.

    Exactly the bytes that are hashed are written, even if the file changes meanwhile, so a blob
    always matches its digest. Where possible, writes bypass the page cache (direct I/O), which
    saves memory and avoids a long sync at the end.
    """

    def __init__(self, source: int, target: int, size: int, kind: Kind) -> None:
        from mmap import mmap

        self._source = source
        self._target = target
        self._size = size
        self._kind = kind
        self._is_direct = _set_direct(target, on=True)
        self._has_failed = False  # set after a failed write, to stop the reader
        self._read: SimpleQueue[tuple[mmap, int]] = SimpleQueue()
        self._free: SimpleQueue[mmap] = SimpleQueue()
        for _ in range(_AHEAD):
            # page-aligned memory, as direct I/O requires
            self._free.put(mmap(-1, _PIECE))

    def read(self) -> str | None:
        """Read and hash the whole file. Return its digest, or None if its length has changed."""
        hasher, done = self._kind.hasher(), 0
        piece = self._free.get()
        try:
            while done <= self._size and (length := os.readv(self._source, [piece])):
                hasher.update(memoryview(piece)[:length])
                done += length
                self._read.put((piece, length))
                piece = self._free.get()
                if self._has_failed:
                    break
        finally:
            self._read.put((piece, 0))
        return self._kind.digest(hasher) if done == self._size else None

    def write(self) -> None:
        """Write all pieces that `read` has read to the copy, in order."""
        while True:
            piece, length = self._read.get()
            if not length:
                return
            try:
                self._write(memoryview(piece)[:length])
            except BaseException:  # pass the error to the reader before this thread ends
                self._has_failed = True
                raise
            finally:
                self._free.put(piece)

    def _write(self, view: memoryview) -> None:
        if self._is_direct and len(view) % _BLOCK:
            self._is_direct = not _set_direct(self._target, on=False)
        while view:
            try:
                view = view[os.write(self._target, view) :]
            except OSError as error:
                if error.errno != errno.EINVAL or not self._is_direct:
                    raise
                # The disk has larger blocks, or does not support direct I/O.
                self._is_direct = not _set_direct(self._target, on=False)


def hash_file(source: int, kind: Kind) -> str:
    """Hash a file from its beginning to its end."""
    piece, hasher = bytearray(_HASHED), kind.hasher()
    while length := os.readv(source, [piece]):
        hasher.update(memoryview(piece)[:length])
    return kind.digest(hasher)


def _set_direct(fd: int, *, on: bool) -> bool:
    """Switch direct I/O on or off. Return whether this worked."""
    import fcntl

    flag = getattr(os, "O_DIRECT", 0)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | flag if on else flags & ~flag)
    except OSError:
        return False
    return bool(flag)

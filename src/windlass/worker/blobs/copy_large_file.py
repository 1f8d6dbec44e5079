"""Copy large files: read, hash and write at the same time, as fast as the disk allows."""

from __future__ import annotations

import errno
import os
from queue import SimpleQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap

    from windlass.worker.blobs.digest import Kind

_PIECE = 8 << 20  # what the disk is given at once: of less it takes less in the same time
_AHEAD = 2  # pieces of a file: one is read while the other is written
_HASHED = 2 << 20  # of what is only hashed
_BLOCK = 4096  # what goes past the kernel's memory is so many bytes, or twice or ...


class Copying:
    """One large file on its way: one thread reads and hashes what another writes.

    What is written is what is hashed, whatever happens to the file: a blob is always what it is
    called. It goes to the disk past the kernel's memory where it may, so that neither a copy of
    it is made there nor all of it is left to be written in the end.
    """

    def __init__(self, source: int, target: int, size: int, kind: Kind) -> None:
        from mmap import mmap

        self._source = source
        self._target = target
        self._size = size
        self._kind = kind
        self._is_direct = _set_direct(target, on=True)
        self._has_failed = False  # what is read from then on would be written by nobody
        self._read: SimpleQueue[tuple[mmap, int]] = SimpleQueue()
        self._free: SimpleQueue[mmap] = SimpleQueue()
        for _ in range(_AHEAD):
            self._free.put(mmap(-1, _PIECE))  # whole pages of memory: the disk wants that

    def read(self) -> str | None:
        """Until the end of the file: its digest; none if it is not as long as it should be."""
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
        """All that is read, in its order."""
        while True:
            piece, length = self._read.get()
            if not length:
                return
            try:
                self._write(memoryview(piece)[:length])
            except BaseException:  # whatever it is: who reads is told before it goes on
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
                # A disk of larger blocks, or one that cannot.
                self._is_direct = not _set_direct(self._target, on=False)


def hash_file(source: int, kind: Kind) -> str:
    """Hash a file from its beginning to its end."""
    piece, hasher = bytearray(_HASHED), kind.hasher()
    while length := os.readv(source, [piece]):
        hasher.update(memoryview(piece)[:length])
    return kind.digest(hasher)


def _set_direct(fd: int, *, on: bool) -> bool:
    """Write past the kernel's memory, or not any more; whether that could be had."""
    import fcntl

    flag = getattr(os, "O_DIRECT", 0)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL)
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | flag if on else flags & ~flag)
    except OSError:
        return False
    return bool(flag)

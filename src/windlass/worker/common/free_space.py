"""Tests whether a file system has space for data."""

from __future__ import annotations

import errno
import os

from windlass.worker.common.atomic_files import remove_if_there

_FULL = (errno.ENOSPC, errno.EDQUOT)


def is_full(folder: str, size: int) -> bool:
    """Return whether this many bytes exceed the disk's free space or the user's quota.

    >>> is_full("/tmp", 1), is_full("/tmp", 1 << 60)
    (False, True)
    """
    disk = os.statvfs(folder)
    if disk.f_bavail * disk.f_frsize < size or (disk.f_files and not disk.f_favail):
        return True
    path = os.path.join(folder, f".space-{os.getpid()}-{os.urandom(4).hex()}")
    try:
        allocate(path, size)  # only allocating space reveals that the quota is used up
    except OSError as error:
        return error.errno in _FULL
    finally:
        remove_if_there(path)
    return False


def allocate(path: str, size: int) -> None:
    """Create a file that occupies this many bytes on disk, accessible only to its owner."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, size)
        else:  # macOS
            for _ in range(0, size, 1 << 20):
                os.write(fd, bytes(1 << 20))
    finally:
        os.close(fd)

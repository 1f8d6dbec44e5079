"""A limit on uploads from other machines that keeps disk space free.

A full disk would stop all of the server's trials, so part of the disk is kept free for the server's
records.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.model.text.quantities import format_size
from windlass.server.errors import HOW_TO_FREE_SPACE, NoSpace

KEPT_FREE = 1 << 30  # bytes; on a small disk, a twentieth of its size


def check_disk_space(folder: Path, size: int = 0) -> None:
    """Raise `NoSpace` for an upload that would leave too little free disk space.

    >>> check_disk_space(Path("/"), 1 << 60)
    Traceback (most recent call last):
    windlass.server.errors.NoSpace: The disk of the server has no space for 1152...
    """
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    kept = min(KEPT_FREE, disk.f_blocks * disk.f_frsize // 20)
    if free - size >= kept:
        return
    what = f"no space for {format_size(size)}" if size else "no space left"
    raise NoSpace(
        # The message omits the current free space, so that repeated messages are equal.
        f"The disk of the server has {what}: its last {format_size(kept)} are for its own records.",
        hint=HOW_TO_FREE_SPACE,
    )

"""Room on the disk of the home for what comes from other machines.

Whoever fills the disk of the server ends the work of everybody: the last of it is for the records.
"""

from __future__ import annotations

import os
from pathlib import Path

from windlass.model.quantities import format_size
from windlass.server.faults import HOW_TO_MAKE_ROOM, NoSpace

KEPT_FREE = 1 << 30  # bytes; of a small disk a twentieth


def check_room(folder: Path, size: int = 0) -> None:
    """Refuse what is so large that too little of the disk would be left.

    >>> check_room(Path("/"), 1 << 60)
    Traceback (most recent call last):
    windlass.server.faults.NoSpace: The disk of the server has no room for 1152.9 PB: ...
    """
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    kept = min(KEPT_FREE, disk.f_blocks * disk.f_frsize // 20)
    if free - size >= kept:
        return
    what = f"no room for {format_size(size)}" if size else "no room left"
    raise NoSpace(
        # Without what is free just now: this is told again and again, and is no news then.
        f"The disk of the server has {what}: its last {format_size(kept)} are for its own records.",
        hint=HOW_TO_MAKE_ROOM,
    )

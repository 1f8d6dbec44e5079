"""Where tests put their files: in memory, where there is plenty of it.

They make files by the hundred thousand and remove them again. There are disks that take this ill:
ext4 without a journal looks, for each file that is made, past all that were deleted in the last
minutes, which was a third of what the processor did in the middle of a run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_NAME = "wl-"  # short: sockets are in there, whose paths are
_PLENTY = 8 << 30  # bytes


def take() -> Path | None:
    """A folder in memory, from now on where temporary files are; none if that is said already."""
    if "TMPDIR" in os.environ or min(_room(), _available()) < _PLENTY:
        return None
    for name in os.listdir(_MEMORY):
        if name.startswith(_NAME) and not Path("/proc", name.removeprefix(_NAME)).exists():
            give_back(_MEMORY / name)  # of a run that failed, or was killed
    folder = _MEMORY / f"{_NAME}{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o711)  # some tests are other users, who must get to what is theirs
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


def give_back(folder: Path) -> None:
    """Remove it with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def _room() -> int:
    try:
        found = os.statvfs(_MEMORY)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _available() -> int:
    """How much memory can be had, as the kernel sees it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(size) * 1024

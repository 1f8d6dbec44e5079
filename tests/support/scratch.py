"""The folder for temporary files of tests: in memory, where the machine has enough.

The tests create and remove hundreds of thousands of files. Some disks are slow at this: for each
new file, ext4 without a journal searches past all inodes deleted in the last minutes. That was a
third of the CPU time in the middle of a run.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")
_NAME = "wl-"  # short: the paths of sockets are limited
_PLENTY = 8 << 30  # bytes


def take() -> Path | None:
    """Put temporary files into a folder in memory.

    Return None if TMPDIR is set or memory is scarce.
    """
    if "TMPDIR" in os.environ or min(_room(), _available()) < _PLENTY:
        return None
    for name in os.listdir(_MEMORY):
        if name.startswith(_NAME) and not Path("/proc", name.removeprefix(_NAME)).exists():
            give_back(_MEMORY / name)  # left by a run that failed or was killed
    folder = _MEMORY / f"{_NAME}{os.getpid()}"
    folder.mkdir()
    folder.chmod(0o711)  # some tests run as other users, who need access to their files
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None
    return folder


def give_back(folder: Path) -> None:
    """Remove the folder and its contents."""
    shutil.rmtree(folder, ignore_errors=True)


def _room() -> int:
    try:
        file_system = os.statvfs(_MEMORY)
    except OSError:
        return 0
    return file_system.f_bavail * file_system.f_frsize


def _available() -> int:
    """The available memory in bytes, as the kernel reports it."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(size) * 1024

"""Unpack a zip file, although the disk fails now and then.

The program `worker.zip` starts with this source, to unpack itself: it imports nothing of Windlass.
"""

from __future__ import annotations

import io
import os
import time
import zipfile

_TRIES = 50  # for each file
_PAUSE = 0.05  # seconds; no notification tells when a disk recovers


def unpack_zip(archive: bytes, folder: str) -> None:
    """Write the files of an archive below a folder, where some may be already."""
    with zipfile.ZipFile(io.BytesIO(archive)) as packed:
        for name in packed.namelist():
            _write(os.path.join(folder, name), packed.read(name))


def _write(path: str, content: bytes) -> None:
    for tries_left in range(_TRIES - 1, -1, -1):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            return
        except OSError:
            if not tries_left:
                raise
        time.sleep(_PAUSE)

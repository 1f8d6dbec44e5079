"""Unpacks a zip file, retrying after temporary disk errors.

The program `worker.zip` starts with this module's source, which it uses to unpack itself. The
module must therefore not import anything from Windlass.
"""

from __future__ import annotations

import io
import os
import time
import zipfile

_TRIES = 50  # for each file
_PAUSE = 0.05  # seconds between retries


def unpack_zip(archive: bytes, folder: str) -> None:
    """Write an archive's files below a folder, where some of them may already exist."""
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

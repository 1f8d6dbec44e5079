"""Caches facts about this interpreter's packages until a package folder changes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from windlass.packaging.cache_files import write_cache

_FORM = 2  # the cache format's version


def cached_by_packages(cache_dir: Path, kind: str, compute: Callable[[], bytes]) -> bytes:
    """Return the cached bytes of one kind, or compute them.

    They are computed again if a package was installed or removed since then.
    """
    key = hashlib.sha256(repr(_package_folders()).encode("utf-8", "replace")).hexdigest()[:32]
    file = os.path.join(str(cache_dir), kind, key)
    try:
        with open(file, "rb") as opened:
            cached = opened.read()
        checksum, _, data = cached.partition(b"\n")
        if checksum == hashlib.sha256(data).hexdigest().encode():
            return data
    except OSError:
        pass  # there is no readable cache, so compute it again
    data = compute()
    write_cache(file, hashlib.sha256(data).hexdigest().encode() + b"\n" + data)
    return data


def _package_folders() -> list[tuple[str, int]]:
    folders = [(sys.version, _FORM)]
    for folder in sys.path:
        # Only folders with installed packages count. The script's own folder changes all the time.
        is_site = os.path.basename(folder) in ("site-packages", "dist-packages")
        is_there = is_site and os.path.isdir(folder)
        folders.append((folder, os.stat(folder).st_mtime_ns if is_there else 0))
    return folders

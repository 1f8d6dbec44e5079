"""Chooses the folder in which the server and its workers cache their bytecode, if necessary."""

from __future__ import annotations

import os
import sys
from importlib.util import cache_from_source
from pathlib import Path

_MOST = 4  # installations; each takes about 5 MB


def use_bytecode_folder(home: str, package: str) -> str:
    """Import the installation of a package through a cache in the home, if it has no bytecode.

    Return the folder of the cache, or "" if the installation needs none or the folder is not safe.
    """
    if not _lacks_bytecode(os.path.join(package, "server", "startup.py")):
        return ""
    import hashlib

    from windlass.home import Home
    from windlass.model.errors import ServerError
    from windlass.worker.common.bytecode_cache import add_cache

    root = os.path.dirname(package)
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
    try:
        folder = Home(Path(home)).make_folder(f"cache/bytecode/{name}")
        os.utime(folder)
        _delete_oldest(folder.parent)
    except (OSError, ServerError):
        return ""
    add_cache(str(folder), root)
    return str(folder)


def _lacks_bytecode(source: str) -> bool:
    """Return whether a module has no bytecode and Python will not write any."""
    if os.path.exists(cache_from_source(source)):
        return False
    return sys.dont_write_bytecode or not os.access(os.path.dirname(source), os.W_OK)


def _delete_oldest(parent: Path) -> None:
    """Delete the bytecode of the installations whose servers started the longest time ago."""
    import shutil

    with os.scandir(parent) as entries:
        folders = sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)
    for entry in folders[_MOST:]:
        shutil.rmtree(entry.path, ignore_errors=True)

"""Writes cache files, which are readable only by their owner and may be deleted at any time."""

from __future__ import annotations

import os


def write_cache(file: str, *pieces: bytes | memoryview) -> None:
    """Replace a cache file atomically. Errors are ignored, because the cache is optional.

    >>> import tempfile
    >>> file = os.path.join(tempfile.mkdtemp(), "cache", "packages")
    >>> write_cache(file, b"numpy", b"==2.1")
    >>> open(file).read(), oct(os.stat(os.path.dirname(file)).st_mode)
    ('numpy==2.1', '0o40700')
    """
    temporary = f"{file}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        _make_folder(os.path.dirname(file))
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as opened:
            opened.writelines(pieces)
        os.replace(temporary, file)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            pass  # the file was never created


def _make_folder(path: str) -> None:
    """Create a folder and its parents, each accessible only to its owner."""
    if os.path.isdir(path):
        return
    _make_folder(os.path.dirname(path))
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass  # another process created it first

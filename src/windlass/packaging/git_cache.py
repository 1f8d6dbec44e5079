"""Cache of git's status of a working tree, valid while HEAD, the index and all files are unchanged.

Git reads HEAD, its index and the files. This module compares HEAD and the index. The snapshot
detects changes of files by their kernel times: from the reading that `generation` identifies to
this one, and so also while git ran in between.
"""

from __future__ import annotations

import os

import msgspec

from windlass.model.records import Git
from windlass.model.thread_safe_types import learned
from windlass.packaging.cache_files import write_cache
from windlass.packaging.file_listing import fingerprint
from windlass.packaging.git import common_directory, git_directory
from windlass.worker.common.file_reads import regular_only

_SYMBOLIC = b"ref: "
_CHECKSUM = 20  # bytes at the end of an index


class _Kept(msgspec.Struct, array_like=True):
    generation: bytes  # identifies the stored state of the tree
    position: bytes
    git: Git


class GitCache:
    """The cached status of one working tree. Create it before git runs."""

    def __init__(self, file: str, folder: str) -> None:
        self._file = file
        self._position = _position(folder)

    def recall(self, generation: bytes) -> Git | None:
        """Return the cached status if it is still valid, provided that no file has changed."""
        try:
            with open(self._file, "rb", opener=regular_only) as file:
                kept = msgspec.msgpack.decode(file.read(), type=learned(_Kept))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        is_same = kept.generation == generation and kept.position == self._position
        return kept.git if is_same and self._position else None

    def keep(self, generation: bytes, git: Git) -> None:
        """Store git's status."""
        if self._position:
            kept = _Kept(generation=generation, position=self._position, git=git)
            write_cache(self._file, msgspec.msgpack.encode(kept))


def _position(folder: str) -> bytes:
    """Return the values of HEAD and the index; empty if they cannot be determined."""
    directory = git_directory(folder)
    common = common_directory(directory)
    try:
        head = _read(os.path.join(directory, "HEAD"))
        index = _checksum(os.path.join(directory, "index"))
        name = head.removeprefix(_SYMBOLIC).strip()
        commit = head if name == head.strip() else _commit(common, os.fsdecode(name))
    except OSError:
        return b""
    if commit is None:
        return b""
    return repr((head, commit, index)).encode("utf-8", "backslashreplace")


def _commit(common: str, name: str) -> bytes | None:
    """Return data that identifies a branch's commit; None if it is not stored in plain files."""
    if not name.startswith("refs/heads/") or name.endswith("/.invalid"):
        return None  # a ref of this working tree alone, or a placeholder for a reftable
    packed = repr(fingerprint(os.path.join(common, "packed-refs"))).encode()
    try:
        loose = _read(os.path.join(common, name))
    except (FileNotFoundError, NotADirectoryError):
        return packed  # the branch is in packed-refs, or has no commit yet
    return None if loose.startswith(_SYMBOLIC) else loose


def _checksum(index: str) -> bytes:
    """Return the checksum of an index. The listing compares its times, which may be too coarse."""
    try:
        with open(index, "rb") as opened:
            opened.seek(-_CHECKSUM, os.SEEK_END)
            return opened.read()
    except FileNotFoundError:
        return b""  # nothing was ever added


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(4096)

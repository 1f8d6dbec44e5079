"""Caches a working tree's git status, so that git need not run for every snapshot.

The status depends on HEAD, the index and the files. This module checks that HEAD and the index are
the same as when git ran. The caller must check that the files are the same as in the cached
snapshot, which `generation` identifies.
"""

from __future__ import annotations

import os

import msgspec

from windlass.model.records import Git
from windlass.model.thread_safe_types import learned
from windlass.packaging.cache_files import write_cache
from windlass.packaging.project_files.file_listing import fingerprint
from windlass.packaging.project_files.git import common_directory, git_directory
from windlass.worker.common.file_reads import regular_only

_SYMBOLIC = b"ref: "
_CHECKSUM = 20  # the length of the checksum that ends an index


class _Kept(msgspec.Struct, array_like=True):
    generation: bytes  # identifies the cached snapshot
    position: bytes
    git: Git


class GitCache:
    """The cached git status of one working tree. Create this object before git runs."""

    def __init__(self, file: str, folder: str) -> None:
        self._file = file
        self._position = _position(folder)

    def recall(self, generation: bytes) -> Git | None:
        """Return the cached status, or None if HEAD or the index has changed.

        The caller must check that no file has changed since the snapshot with this `generation`.
        """
        try:
            with open(self._file, "rb", opener=regular_only) as file:
                kept = msgspec.msgpack.decode(file.read(), type=learned(_Kept))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        is_same = kept.generation == generation and kept.position == self._position
        return kept.git if is_same and self._position else None

    def keep(self, generation: bytes, git: Git) -> None:
        """Store git's status with the `generation` of the snapshot that it belongs to."""
        if self._position:
            kept = _Kept(generation=generation, position=self._position, git=git)
            write_cache(self._file, msgspec.msgpack.encode(kept))


def _position(folder: str) -> bytes:
    """Return bytes that identify the state of git's HEAD and index, or b"" if that is unknown."""
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
    """Return bytes that identify a branch's commit.

    Return None if the repository does not store the branch in a plain file.
    """
    if not name.startswith("refs/heads/") or name.endswith("/.invalid"):
        return None  # a ref that belongs to one worktree, or a reftable placeholder
    packed = repr(fingerprint(os.path.join(common, "packed-refs"))).encode()
    try:
        loose = _read(os.path.join(common, name))
    except (FileNotFoundError, NotADirectoryError):
        return packed  # the branch is in packed-refs, or has no commit yet
    return None if loose.startswith(_SYMBOLIC) else loose


def _checksum(index: str) -> bytes:
    """Return the checksum at the end of a git index file.

    The times of the index file do not suffice to detect a change, because their resolution may be
    too coarse.
    """
    try:
        with open(index, "rb") as opened:
            opened.seek(-_CHECKSUM, os.SEEK_END)
            return opened.read()
    except FileNotFoundError:
        return b""  # no file was ever added to the index


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(4096)

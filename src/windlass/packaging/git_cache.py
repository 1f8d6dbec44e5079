"""What git said of a working tree, remembered as long as nothing that it looked at has changed.

Git reads HEAD, its index and the files. HEAD and the index are compared here. That no file
changed is told by the snapshot, by times that the kernel keeps: from the reading that the
`generation` names to this one, and so while git was asked in between.
"""

from __future__ import annotations

import os

import msgspec

from windlass.model.records import Git
from windlass.model.thread_safe_types import learned
from windlass.packaging.cache_files import write_cache
from windlass.packaging.file_listing import fingerprint
from windlass.packaging.git import common_directory, git_directory

_SYMBOLIC = b"ref: "
_CHECKSUM = 20  # an index ends with one


class _Kept(msgspec.Struct, array_like=True):
    generation: bytes  # of what was known of the tree
    position: bytes
    git: Git


class GitMemory:
    """The memory of one working tree. To be made before git is asked."""

    def __init__(self, file: str, folder: str) -> None:
        self._file = file
        self._position = _position(folder)

    def recall(self, generation: bytes) -> Git | None:
        """What git said, if it would say the same now provided that no file has changed."""
        try:
            with open(self._file, "rb") as file:
                kept = msgspec.msgpack.decode(file.read(), type=learned(_Kept))
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        is_same = kept.generation == generation and kept.position == self._position
        return kept.git if is_same and self._position else None

    def keep(self, generation: bytes, git: Git) -> None:
        """Remember what git said."""
        if self._position:
            kept = _Kept(generation=generation, position=self._position, git=git)
            write_cache(self._file, msgspec.msgpack.encode(kept))


def _position(folder: str) -> bytes:
    """Where a repository stands: what HEAD is, and which index. Empty if that cannot be told."""
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
    """What tells the commit of a branch; nothing if it is not kept in plain files."""
    if not name.startswith("refs/heads/") or name.endswith("/.invalid"):
        return None  # one of this working tree alone; a name that stands for a reftable
    packed = repr(fingerprint(os.path.join(common, "packed-refs"))).encode()
    try:
        loose = _read(os.path.join(common, name))
    except (FileNotFoundError, NotADirectoryError):
        return packed  # it is in there, or there is no commit yet
    return None if loose.startswith(_SYMBOLIC) else loose


def _checksum(index: str) -> bytes:
    """The end of an index. Its times are compared with the listing; they may be as coarse."""
    try:
        with open(index, "rb") as opened:
            opened.seek(-_CHECKSUM, os.SEEK_END)
            return opened.read()
    except FileNotFoundError:
        return b""  # nothing was ever added


def _read(file: str) -> bytes:
    with open(file, "rb") as opened:
        return opened.read(4096)

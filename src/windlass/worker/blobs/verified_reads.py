"""Reads of blobs that compare the content with the digest.

A blob with other bytes than its digest says is renamed to `.damaged-<digest>` in the store. It then
counts as missing, so that the next client that has the content sends it again.
"""

from __future__ import annotations

import os
import stat
import time

from windlass.worker.blobs.digest import is_digest, kind_of, path_in_store
from windlass.worker.common.atomic_files import make_folder, write_bytes
from windlass.worker.common.file_reads import list_folder, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGED = ".damaged-"  # prefix of a blob that was set aside
VERIFIED = ".verified"  # the folder of notes about large blobs that were verified
LARGEST_MANIFEST = 64 << 20  # bytes; a trial's process and the server hold one in memory
_SMALL = 256 * 1024  # bytes; below this, hashing costs no more than a note
_PIECE = 1 << 20
_SETTLED = 2.0  # seconds; a later write may not change the time of a younger file
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class DamagedBlob(FileNotFoundError):
    """The content of a blob does not match its digest. The blob was set aside."""


def read_blob(blobs: str, digest: str, limit: int = LARGEST_MANIFEST) -> bytes:
    """Return the verified content of a blob.

    Raise `FileNotFoundError` if the store lacks it, and `ValueError` if it exceeds the limit.
    """
    fd = open_blob(blobs, digest)
    try:
        size = os.fstat(fd).st_size
        if size > limit:
            check_file(blobs, digest, fd)
            raise ValueError(f"the content {digest[:12]} has {size} bytes, more than {limit}")
        data = read_whole(fd, size)
        check_bytes(blobs, digest, data, fd)
        return data
    finally:
        os.close(fd)


def open_verified(blobs: str, digest: str) -> int:
    """Open a blob, and verify it first."""
    fd = open_blob(blobs, digest)
    try:
        check_file(blobs, digest, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_blob(blobs: str, digest: str) -> int:
    """Open a blob without verification. A pipe, link or folder in its place is set aside."""
    path = path_in_store(blobs, digest)
    try:
        fd = os.open(path, _OPEN)
    except FileNotFoundError:
        raise
    except OSError:
        # A link cannot be opened. Other errors say nothing about the blob.
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise _set_aside(blobs, digest) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _set_aside(blobs, digest)
    return fd


def check_bytes(blobs: str, digest: str, data: bytes, fd: int) -> None:
    """Set a blob aside and raise `DamagedBlob`, unless this whole content has its digest."""
    try:
        is_intact = kind_of(digest).digest_of(data) == digest
    except ImportError:  # the environment of a trial may lack the package
        return
    if not is_intact:
        raise _set_aside(blobs, digest, fd)


def check_file(blobs: str, digest: str, fd: int, *, again: bool = False) -> None:
    """Set an open blob aside and raise `DamagedBlob`, unless its content has its digest.

    A large blob is hashed once. A note has its inode, size and times, and spares the next
    verification while they stay the same, unless `again`.
    """
    status = os.fstat(fd)
    is_large = status.st_size > _SMALL
    note = _note(status) if is_large else b""
    if is_large and not again and read_file(_note_path(blobs, digest), limit=200) == note:
        return
    try:
        kind = kind_of(digest)
    except ImportError:
        return
    hasher, position = kind.hasher(), 0
    while piece := os.pread(fd, _PIECE, position):
        hasher.update(piece)
        position += len(piece)
    if kind.digest(hasher) != digest:
        raise _set_aside(blobs, digest, fd)
    if is_large and max(status.st_mtime, status.st_ctime) < time.time() - _SETTLED:
        _write_note(blobs, digest, note)


def verify_all(blobs: str) -> Iterator[tuple[str, int, bool]]:
    """Verify every blob; yield its digest, its size and whether it is intact."""
    for folder in sorted(name for name in list_folder(blobs) if len(name) == 2):
        for digest in filter(is_digest, sorted(list_folder(f"{blobs}/{folder}"))):
            try:
                fd = open_blob(blobs, digest)
            except DamagedBlob:
                yield digest, 0, False
                continue
            except FileNotFoundError:
                continue  # it was deleted meanwhile
            size = os.fstat(fd).st_size
            try:
                check_file(blobs, digest, fd, again=True)
                yield digest, size, True
            except DamagedBlob:
                yield digest, size, False
            finally:
                os.close(fd)


def damaged_blobs(blobs: str) -> set[str]:
    """Return the digests of blobs that were set aside."""
    return {name[len(DAMAGED) :] for name in os.listdir(blobs) if name.startswith(DAMAGED)}


def was_damaged(blobs: str, digest: str) -> bool:
    """Return whether a blob was set aside."""
    return os.path.lexists(f"{blobs}/{DAMAGED}{digest}")


def forget_note(blobs: str, digest: str) -> None:
    """Delete the note about a blob that is deleted."""
    try:
        os.unlink(_note_path(blobs, digest))
    except OSError:
        pass  # a small blob has none


def read_whole(fd: int, size: int) -> bytes:
    """Read a file of this size, and at most one byte more."""
    data = os.read(fd, size + 1)
    while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def _set_aside(blobs: str, digest: str, fd: int = -1) -> DamagedBlob:
    """Set a blob aside, unless it was replaced meanwhile, and return the error."""
    path = path_in_store(blobs, digest)
    try:
        is_same = fd < 0 or os.path.samestat(os.fstat(fd), os.lstat(path))
        if is_same:
            os.rename(path, f"{blobs}/{DAMAGED}{digest}")
    except FileNotFoundError:
        pass  # another process was faster
    return DamagedBlob(f"the content {digest[:12]} is damaged in the store and was set aside")


def _note(status: os.stat_result) -> bytes:
    facts = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return " ".join(map(str, facts)).encode()


def _note_path(blobs: str, digest: str) -> str:
    return f"{blobs}/{VERIFIED}/{digest}"


def _write_note(blobs: str, digest: str, note: bytes) -> None:
    try:
        make_folder(f"{blobs}/{VERIFIED}", 0o700)
        write_bytes(_note_path(blobs, digest), note)
    except OSError:
        pass  # the next reader verifies the blob again

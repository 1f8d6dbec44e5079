"""Reads blobs and verifies that their content matches their digest.

A blob that does not match is renamed to `.damaged-<digest>` in the store. It then counts as
missing, so the next client that has the content uploads it again.
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

DAMAGED = ".damaged-"  # prefix for damaged blobs
VERIFIED = ".verified"  # the folder for notes about verified large blobs
LARGEST_MANIFEST = 64 << 20  # bytes; processes hold the whole blob in memory
_SMALL = 256 * 1024  # bytes; hashing a smaller blob is as fast as reading a note
_PIECE = 1 << 20
_SETTLED = 2.0  # seconds; a second write within this time may not change a file's time
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class DamagedBlob(FileNotFoundError):
    """Raised if a blob's content does not match its digest.

    The blob was renamed and counts as missing.
    """


def read_blob(blobs: str, digest: str, limit: int = LARGEST_MANIFEST) -> bytes:
    """Return a blob's verified content.

    Raise `FileNotFoundError` if the store lacks the blob, and `ValueError` if the blob exceeds the
    limit.
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
    """Verify a blob and return a file descriptor for it."""
    fd = open_blob(blobs, digest)
    try:
        check_file(blobs, digest, fd)
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_blob(blobs: str, digest: str) -> int:
    """Open a blob without verifying it. Rename any pipe, link or folder in its place."""
    path = path_in_store(blobs, digest)
    try:
        fd = os.open(path, _OPEN)
    except FileNotFoundError:
        raise
    except OSError:
        # Only a link or another irregular file means damage. Other errors say nothing about the
        # blob.
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise _set_aside(blobs, digest) from None
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise _set_aside(blobs, digest)
    return fd


def check_bytes(blobs: str, digest: str, data: bytes, fd: int) -> None:
    """Raise `DamagedBlob` and rename the blob if `data` does not match the digest."""
    try:
        is_intact = kind_of(digest).digest_of(data) == digest
    except ImportError:  # the package may be missing in the trial's environment
        return
    if not is_intact:
        raise _set_aside(blobs, digest, fd)


def check_file(blobs: str, digest: str, fd: int, *, again: bool = False) -> None:
    """Raise `DamagedBlob` and rename the open blob if its content does not match its digest.

    For a verified large blob, a note stores its inode, size and times. While they stay the same,
    the blob is not hashed again, unless `again` is true.
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
    """Verify all blobs. Yield each blob's digest and size, and whether it is intact."""
    for folder in sorted(name for name in list_folder(blobs) if len(name) == 2):
        for digest in filter(is_digest, sorted(list_folder(f"{blobs}/{folder}"))):
            try:
                fd = open_blob(blobs, digest)
            except DamagedBlob:
                yield digest, 0, False
                continue
            except FileNotFoundError:
                continue  # deleted in the meantime
            size = os.fstat(fd).st_size
            try:
                check_file(blobs, digest, fd, again=True)
                yield digest, size, True
            except DamagedBlob:
                yield digest, size, False
            finally:
                os.close(fd)


def damaged_blobs(blobs: str) -> set[str]:
    """Return the digests of blobs that were renamed because they are damaged."""
    return {name[len(DAMAGED) :] for name in os.listdir(blobs) if name.startswith(DAMAGED)}


def was_damaged(blobs: str, digest: str) -> bool:
    """Return whether a blob with this digest was renamed because it was damaged."""
    return os.path.lexists(f"{blobs}/{DAMAGED}{digest}")


def forget_note(blobs: str, digest: str) -> None:
    """Delete the note that a large blob was verified, because the blob is being deleted."""
    try:
        os.unlink(_note_path(blobs, digest))
    except OSError:
        pass  # a small blob has no note


def read_whole(fd: int, size: int) -> bytes:
    """Read a file that had this size. Try to read one more byte, to detect that it has grown."""
    data = os.read(fd, size + 1)
    while len(data) < size and (more := os.read(fd, size + 1 - len(data))):
        data += more
    return data


def _set_aside(blobs: str, digest: str, fd: int = -1) -> DamagedBlob:
    """Rename a damaged blob unless it was replaced in the meantime. Return the error to raise."""
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
        pass  # without a note, the next reader verifies the blob again

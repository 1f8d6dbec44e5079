"""A blob store in files, for code, payloads, results and checkpoint files.

The store writes a blob under a temporary name and then renames the file, so a file whose name is a
digest is always complete.

Garbage collection (server/stores/blobs/garbage.py) deletes unreferenced blobs while other processes
write. A process that is about to refer to a blob has either requested the blob from this store or
made a hard link to the blob's file. In both cases, garbage collection keeps the blob.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from windlass.server.stores.blobs.disk_space import check_disk_space
from windlass.server.stores.blobs.pack_uploads import INCOMING, FileBlobUploads, put_in_place
from windlass.worker.blobs.digest import is_digest, path_in_store
from windlass.worker.blobs.verified_reads import (
    DAMAGED,
    damaged_blobs,
    forget_note,
    open_blob,
    open_verified,
    read_blob,
)
from windlass.worker.blobs.writer import held, remove_staging, remove_tree
from windlass.worker.common.atomic_files import remove_if_there, write_bytes
from windlass.worker.common.file_reads import exists, regular_only

DIGEST_IN_TEXT = re.compile(rb"(?<![0-9a-f])(?:b3-)?[0-9a-f]{64}(?![0-9a-f])")
_LIST = b'{"files":['  # the first bytes of every manifest
_CHUNK = 1 << 20
_OUTGOING = ".out-"  # name prefix of a blob that is being deleted
_MOST_NOTED = 200_000  # the most entries to keep; beyond that, the oldest are dropped
_LARGEST_VERIFIED = 64 << 20  # bytes; verifying a larger blob would delay responses too long
_OVERLAP = 80  # bytes; more than the length of a digest
_STALE = 600.0  # seconds; a request for a blob whose timestamp is older renews it


class FileBlobStore:
    """A blob store that keeps its blobs as files in one directory.

    >>> import tempfile
    >>> store = FileBlobStore(Path(tempfile.mkdtemp()))
    >>> digest = store.put(b"hello")
    >>> store.get(digest)
    b'hello'
    """

    def __init__(self, path: Path, lately: float = 60.0) -> None:
        """Open the store in a directory.

        A blob that was requested within the last `lately` seconds is kept, because a client may be
        about to refer to it.
        """
        self._horizon = lately
        self._root = str(path)
        self._lately: dict[str, float] = {}  # the time of the last request or upload, by digest
        self._unwritten: dict[str, bytes] = {}  # blobs in the database, by digest
        self._written: set[str] = set()  # the digests of those that have a file by now
        self._writing = threading.Lock()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        """The directory that contains the blobs."""
        return Path(self._root)

    def path(self, digest: str) -> str:
        """Return the path of a blob's file, whether or not the file exists."""
        if not is_digest(digest):
            raise ValueError(f"{digest!r} is not a digest")
        return path_in_store(self._root, digest)

    def has(self, digest: str) -> bool:
        """Return whether the store has a blob.

        If so, garbage collection keeps the blob for a while.
        """
        path = self.path(digest)
        now = time.time()
        self._note(digest, now)  # must precede the check for the file; see `withdraw`
        if digest in self._unwritten:
            return True
        try:
            if now - os.lstat(path).st_mtime > _STALE:
                os.utime(path)
        except FileNotFoundError:
            return False
        return True

    def missing(self, digests: Iterable[str], *, trees: Iterable[str] = ()) -> list[str]:
        """Return, without duplicates, the digests whose blobs the store does not have.

        `trees` are the digests of manifests. A manifest also counts as missing if a file that it
        lists was found to be damaged.
        """
        missing = [digest for digest in dict.fromkeys(digests) if not self.has(digest)]
        checked = [tree for tree in trees if tree not in missing]
        if checked and (damaged := self._damaged()):
            missing += [tree for tree in checked if not damaged.isdisjoint(self.listed(tree) or ())]
        return missing

    def get(self, digest: str) -> bytes:
        """Return the content of a blob after verifying it.

        Raise `ValueError` if the blob is larger than any manifest.
        """
        self.write_out(digest)
        return read_blob(self._root, digest)

    def size(self, digest: str) -> int:
        """Return the size of a blob in bytes."""
        self.write_out(digest)
        return os.stat(self.path(digest)).st_size

    def open(self, digest: str, *, verify: bool = True) -> BinaryIO:
        """Open the content of a blob for reading.

        The content of a very large blob is not verified.
        """
        is_verified = verify and self.size(digest) <= _LARGEST_VERIFIED
        opening = open_verified if is_verified else open_blob
        return os.fdopen(opening(self._root, digest), "rb")

    def put(self, data: bytes, *, digest: str | None = None) -> str:
        """Store some bytes and return their digest.

        Raise `ValueError` if `digest` is not the digest of the bytes.
        """
        actual = hashlib.sha256(data).hexdigest()
        if digest is not None and actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        target = self.path(actual)
        if not (self.has(actual) and self._is_intact(actual)):
            temporary = f"{self._root}/{INCOMING}{actual}-{threading.get_ident()}"
            write_bytes(temporary, data, durable=True)
            put_in_place(temporary, target)
        return actual

    def add_unwritten(self, blobs: Mapping[str, bytes]) -> None:
        """Add blobs that are in the database but have no files yet."""
        self._unwritten.update(blobs)

    def unwritten(self) -> list[str]:
        """The digests of the blobs that are in the database but not yet in files, oldest first."""
        return list(self._unwritten)

    def write_out(self, digest: str) -> None:
        """Write the file of a blob that is in the database, unless it is already written."""
        if digest not in self._unwritten:
            return
        with self._writing:  # a synced file must not be replaced
            data = self._unwritten.get(digest)
            if data is None or (digest in self._written and self._is_intact(digest)):
                return
            self._note(digest, time.time())
            # The row is durable, so the file need not be synced.
            temporary = f"{self._root}/{INCOMING}{digest}"
            write_bytes(temporary, data)
            put_in_place(temporary, self.path(digest))
            self._written.add(digest)

    def forget_unwritten(self, digests: Iterable[str]) -> int:
        """Forget database blobs whose files are durable now, and return the blobs' total size."""
        size = 0
        with self._writing:
            for digest in digests:
                self._written.discard(digest)
                size += len(self._unwritten.pop(digest, b""))
        return size

    def sweep(self) -> None:
        """Clean up after killed servers: remove unfinished writes and undo unfinished deletions.

        Call this method when the server starts.
        """
        for name in os.listdir(self._root):
            path = f"{self._root}/{name}"
            if name.startswith(INCOMING):
                remove_if_there(path)
            elif name.startswith(_OUTGOING):
                self._put_back(path, name.removeprefix(_OUTGOING))

    def list_blobs(self) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the digest and the file status of every blob."""
        for folder in sorted(os.listdir(self._root)):
            if len(folder) != 2:
                continue
            with os.scandir(f"{self._root}/{folder}") as entries:
                for entry in entries:
                    if is_digest(entry.name):
                        try:
                            yield entry.name, entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue

    def listed(self, digest: str) -> list[str] | None:
        """Return the digests in a blob that begins like a manifest, or None for any other blob.

        Garbage collection keeps these digests. A project file that looks like a manifest may keep
        unneeded blobs, but no needed blob is deleted.
        """
        try:
            fd = open_blob(self._root, digest)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            return _listed_in(file)

    def lately(self) -> set[str]:
        """Return the digests that clients recently requested or wrote."""
        limit = time.time() - self._horizon
        self._lately = {digest: at for digest, at in self._lately.copy().items() if at > limit}
        return set(self._lately)

    def may_come(self, digest: str, needed: Iterable[str] = ()) -> bool:
        """Return whether an uploaded blob can get its final name. All blobs in `needed` must exist.

        If a file that a manifest lists was deleted during the upload, the manifest is refused. The
        client sends the manifest again once the server reports the manifest missing.
        """
        self._note(digest, time.time())
        return not self.missing(needed)

    def withdraw(self, digest: str) -> bool:
        """Delete an unreferenced blob. Return False if a client is using it after all.

        The blob is first renamed. A client that checks for it after this moment uploads it again.
        If a client checked earlier, the store has noted the request or the file has a second link.
        In that case, the blob is restored.
        """
        path = self.path(digest)
        aside = f"{self._root}/{_OUTGOING}{digest}"
        try:
            os.rename(path, aside)
        except FileNotFoundError:
            return False
        last_use = self._lately.get(digest, 0.0)
        if last_use > time.time() - self._horizon or os.stat(aside).st_nlink > 1:
            self._put_back(aside, digest)
            return False
        os.unlink(aside)
        forget_note(self._root, digest)
        return True

    def discard_damaged(self, kept: Container[str], limit: float) -> None:
        """Delete damaged blobs that a client has sent again or that no record needs."""
        for digest in damaged_blobs(self._root):
            aside = f"{self._root}/{DAMAGED}{digest}"
            try:
                is_old = os.lstat(aside).st_ctime < limit
            except FileNotFoundError:
                continue
            if is_old and (digest not in kept or exists(self.path(digest))):
                remove_if_there(aside)
                remove_tree(aside)  # a directory had the blob's name

    def _is_intact(self, digest: str) -> bool:
        """Return whether the store has an intact copy of a blob. Set a damaged copy aside."""
        try:
            os.close(open_verified(self._root, digest))
        except FileNotFoundError:
            return False
        return True

    def _damaged(self) -> set[str]:
        """Return the digests of damaged blobs that no client has sent again."""
        return {d for d in damaged_blobs(self._root) if is_digest(d) and not exists(self.path(d))}

    def _note(self, digest: str, now: float) -> None:
        self._lately[digest] = now
        if len(self._lately) > _MOST_NOTED:
            self.lately()

    def _put_back(self, aside: str, digest: str) -> None:
        try:
            os.link(aside, self.path(digest))
        except FileExistsError:
            pass  # a client uploaded it again
        except ValueError:
            pass  # the name is not a digest
        os.unlink(aside)

    def start_uploads(self) -> FileBlobUploads:
        """Start receiving a pack of blobs."""
        return FileBlobUploads(self)

    def check_space(self, size: int = 0) -> None:
        """Raise `NoSpace` if the disk has too little space for an upload of this size."""
        check_disk_space(self.root, size)

    def held(self) -> AbstractContextManager[None]:
        """Suspend garbage collection, so that blobs found inside the block exist until its end."""
        return held(self._root)

    def discard_unfinished(self, trial_id: int) -> None:
        """Delete partial blobs that a finished trial's processes left behind."""
        remove_staging(self._root, str(trial_id))

    def upload_path(self) -> Path:
        """Return a new path for an upload. `sweep` deletes leftover uploads."""
        return Path(self._root, f"{INCOMING}{threading.get_ident()}-{os.urandom(8).hex()}")

    def put_upload(self, source: Path, digest: str) -> None:
        """Store a file that was written to `upload_path`.

        The caller must have checked and synced the file.
        """
        target = self.path(digest)
        self._note(digest, time.time())
        put_in_place(str(source), target)

    def put_file(self, source: Path) -> tuple[str, int]:
        """Store a file's content without moving the file. Return the content's digest and size."""
        hasher = hashlib.sha256()
        size = 0
        with open(source, "rb", opener=regular_only) as file:
            while chunk := file.read(_CHUNK):
                hasher.update(chunk)
                size += len(chunk)
        digest = hasher.hexdigest()
        target = self.path(digest)
        # If the blob is new, `source` becomes a second hard link to it, which keeps the blob alive.
        # If the blob already exists, check that it is intact.
        if not exists(target) or not self.has(digest) or not self._is_intact(digest):
            # Link the file instead of moving it, so that the next server still finds the source if
            # the server is killed here.
            temporary = f"{self._root}/{INCOMING}{digest}-{threading.get_ident()}"
            remove_if_there(temporary)
            os.link(source, temporary)
            put_in_place(temporary, target)
        return digest, size


def _listed_in(file: BinaryIO) -> list[str] | None:
    if file.read(len(_LIST)) != _LIST:
        return None
    digests: set[str] = set()
    rest = b""
    # Read in pieces, because a blob that looks like a manifest may be very large.
    while piece := file.read(_CHUNK):
        text = rest + piece
        digests |= {digest.decode() for digest in DIGEST_IN_TEXT.findall(text)}
        rest = text[-_OVERLAP:]
    return list(digests)

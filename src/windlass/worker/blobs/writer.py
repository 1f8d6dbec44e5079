"""Writes files to the blob store from the user's process, hashing them during the copy.

A file named by a digest is complete and on disk, and is never written again. A large file that may
be unchanged since the previous checkpoint is hashed first, and copied only if it differs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from windlass.worker.blobs.copy_large_file import FileCopy, hash_file
from windlass.worker.blobs.digest import fastest_kind, kind_of, path_in_store
from windlass.worker.blobs.scan_files import changed_while_saved
from windlass.worker.blobs.verified_reads import open_blob, open_verified
from windlass.worker.common.atomic_files import make_folder, write_all, write_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from windlass.worker.blobs.digest import Kind
    from windlass.worker.blobs.scan_files import ScannedFile

STAGING = ".saving-"  # prefix of staging folders in the store, followed by the saver's name
LOCK = ".lock"  # a lock file: shared by savers, exclusive for garbage collection
_PIECE = 1 << 20
_SYNCED_ONE_BY_ONE = 32  # for more files than this, sync the whole file system
_READ = os.O_RDONLY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@contextmanager
def held(blobs: str) -> Iterator[None]:
    """Hold the store's lock in shared mode, which keeps garbage collection from deleting blobs.

    A blob that the saver found in the store therefore still exists when the saver writes the record
    that names it.
    """
    import fcntl

    make_folder(blobs, 0o700)
    fd = os.open(os.path.join(blobs, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


class BlobWriter:
    """Writes files to the store. New blobs become visible when `settle` is called."""

    def __init__(self, blobs: str, whose: str) -> None:
        self._blobs = blobs
        self._staging = os.path.join(blobs, f"{STAGING}{whose}")
        self._staged: dict[str, str] = {}  # temporary path of each new blob, by digest
        self._durable: set[str] = set()  # temporary paths of blobs that are already synced
        self._count = 0
        self._open: set[int] = set()  # descriptors of unfinished files
        self.kind = fastest_kind()
        self._reading: ThreadPoolExecutor | None = None
        self._writing: ThreadPoolExecutor | None = None

    def __enter__(self) -> BlobWriter:
        make_folder(self._staging, 0o700)
        return self

    def __exit__(self, *_: object) -> None:
        for pool in (self._reading, self._writing):
            if pool is not None:
                pool.shutdown()
        self._close(*self._open)
        remove_tree(self._staging)

    def keep(self, file: ScannedFile, before: str | None = None) -> Callable[[], str]:
        """Start storing a file.

        Return a function that waits until the file is stored and returns its digest.

        `before` is the file's previous digest, if the file may be unchanged.
        """
        if file.seen.st_size <= _PIECE:
            data = self.read_small(file)
            digest = self.kind.digest_of(data)
            self.put_small(digest, data)
            return lambda: digest
        try:
            source = os.open(file.path, _READ)
        except FileNotFoundError:
            raise changed_while_saved(file.path) from None
        self._open.add(source)
        kind = self._kind_before(source, before)
        if before is None or kind is None:
            return self._keep_large(source, file)
        return self._compare_large(source, file, before, kind)

    def read_small(self, file: ScannedFile) -> bytes:
        """Read a small file to save. Raise an error if its length has changed since the scan."""
        try:
            source = os.open(file.path, _READ)
        except FileNotFoundError:
            raise changed_while_saved(file.path) from None
        try:
            data = _read_all(source, file.seen.st_size)
        finally:
            os.close(source)
        if len(data) != file.seen.st_size:
            raise changed_while_saved(file.path)
        return data

    def put_small(self, digest: str, data: bytes) -> None:
        """Store small data under its digest."""
        if digest not in self._staged and self.size_of(digest, -1) < 0:
            staged = self._stage()
            _write_new(staged, data)
            self._staged[digest] = staged

    def keep_bytes(self, data: bytes) -> Callable[[], str]:
        """Start storing a bundle.

        Return a function that waits until the bundle is stored and returns its digest.

        The data is synced to disk immediately, while other files are being read.
        """
        reading, writing = self._pools()
        staged = self._stage()
        hashed = reading.submit(self.kind.digest_of, data)
        written = writing.submit(_write_new, staged, data, durable=True)

        def finish() -> str:
            written.result()
            digest = hashed.result()
            if self._has(digest):
                os.unlink(staged)
            else:
                self._staged[digest] = staged
                self._durable.add(staged)
            return digest

        return finish

    def size_of(self, digest: str, missing: int) -> int:
        """Return the size of an intact blob, or `missing` if the store lacks it."""
        try:
            fd = open_verified(self._blobs, digest)
        except FileNotFoundError:
            return missing
        try:
            return os.fstat(fd).st_size
        finally:
            os.close(fd)

    def _keep_large(self, source: int, file: ScannedFile) -> Callable[[], str]:
        """Start copying a large file to the store with two threads, in parallel with other files.

        Return a function that waits for the copy and returns the file's digest.
        """
        reading, writing = self._pools()
        staged = self._stage()
        target = os.open(staged, _WRITE, 0o600)
        self._open.add(target)
        # Submit both tasks together, so that a file's reader and writer run at the same time.
        copying = FileCopy(source, target, file.seen.st_size, self.kind)
        read = reading.submit(copying.read)
        written = writing.submit(copying.write)

        def finish() -> str:
            try:
                written.result()
                digest = read.result()
            finally:
                self._close(source, target)
            if digest is None:
                raise changed_while_saved(file.path)
            if self._has(digest):
                os.unlink(staged)
            else:
                self._staged[digest] = staged
            return digest

        return finish

    def _pools(self) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Return one thread pool for reading and hashing, and one for writing."""
        if self._reading is None or self._writing is None:
            at_once = min(os.cpu_count() or 1, 4)
            self._reading = ThreadPoolExecutor(at_once, "windlass-read")
            self._writing = ThreadPoolExecutor(at_once, "windlass-write")
        return self._reading, self._writing

    def _close(self, *fds: int) -> None:
        for fd in fds:
            self._open.discard(fd)
            os.close(fd)

    def _has(self, digest: str) -> bool:
        return digest in self._staged or os.access(self._blob_path(digest), os.F_OK)

    def put(self, data: bytes) -> str:
        """Write a manifest to the store, sync it to disk at once, and return its digest."""
        import hashlib

        digest = hashlib.sha256(data).hexdigest()
        if not os.path.exists(self._blob_path(digest)):
            staged = self._stage()
            write_bytes(staged, data, durable=True)
            self._name(staged, digest)
            _flush(os.path.dirname(self._blob_path(digest)))
        return digest

    def settle(self) -> None:
        """Sync all new blobs to disk and rename them to their digests."""
        if not self._staged:
            return
        loose = [path for path in self._staged.values() if path not in self._durable]
        if len(loose) <= _SYNCED_ONE_BY_ONE or not _flush_file_system(self._staging):
            self._flush_each(loose)
        for digest, staged in self._staged.items():
            self._name(staged, digest)
        folders = sorted({os.path.dirname(self._blob_path(digest)) for digest in self._staged})
        if len(folders) <= _SYNCED_ONE_BY_ONE or not _flush_file_system(self._staging):
            self._flush_each(folders)
        self._staged.clear()

    def _kind_before(self, source: int, before: str | None) -> Kind | None:
        """Return the digest kind for comparing a file with its previous version.

        Return None if the file differs or cannot be compared. The check compares only the first
        pieces, because most changed files already differ there.
        """
        if before is None:
            return None
        try:
            blob = open_blob(self._blobs, before)
        except OSError:
            return None
        try:
            is_alike = os.pread(source, _PIECE, 0) == os.pread(blob, _PIECE, 0)
            return kind_of(before) if is_alike else None
        except ImportError:
            return None
        finally:
            os.close(blob)

    def _compare_large(
        self, source: int, file: ScannedFile, before: str, kind: Kind
    ) -> Callable[[], str]:
        """Hash a file, and store it if the digest of its previous version is different.

        The previous version is not read, because reading it from disk may be slow.
        """
        hashed = self._pools()[0].submit(hash_file, source, kind)

        def finish() -> str:
            if hashed.result() == before:
                self._close(source)
                return before
            os.lseek(source, 0, os.SEEK_SET)
            return self._keep_large(source, file)()

        return finish

    def _stage(self) -> str:
        self._count += 1
        return f"{self._staging}/{self._count}"

    def _blob_path(self, digest: str) -> str:
        return path_in_store(self._blobs, digest)

    def _name(self, staged: str, digest: str) -> None:
        """Rename a new blob to its digest, creating the folder if necessary."""
        target = self._blob_path(digest)
        try:
            os.replace(staged, target)
        except FileNotFoundError:
            make_folder(os.path.dirname(target), 0o700)
            os.replace(staged, target)

    def _flush_each(self, paths: list[str]) -> None:
        """Sync files in parallel. The file system combines these syncs into a few disk writes."""
        if len(paths) <= 1:
            for path in paths:
                _flush(path)
            return
        with ThreadPoolExecutor(min(len(paths), 16), "windlass-sync") as pool:
            list(pool.map(_flush, paths))


def remove_tree(path: str) -> None:
    """Remove a folder and its contents. Ignore errors."""
    import shutil  # imported late, because only savers need it

    shutil.rmtree(path, ignore_errors=True)


def remove_staging(blobs: str, trial: str) -> None:
    """Delete the unfinished blobs of a trial without any running process."""
    for name in os.listdir(blobs):
        if name.startswith(f"{STAGING}{trial}."):
            remove_tree(os.path.join(blobs, name))


def _read_all(source: int, size: int) -> bytes:
    """Read as many bytes as expected and a few more, to detect that the file has grown."""
    data = os.read(source, size + 1)
    while 0 < len(data) < size and (more := os.read(source, size + 1 - len(data))):
        data += more
    return data


def _write_new(path: str, data: bytes, *, durable: bool = False) -> None:
    target = os.open(path, _WRITE, 0o600)
    try:
        write_all(target, data)
        if durable:
            os.fsync(target)
    finally:
        os.close(target)


def _flush(path: str) -> None:
    fd = os.open(path, _READ)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush_file_system(path: str) -> bool:
    """Sync a whole file system. Return False if the system does not support this.

    For thousands of small files, this is one disk commit instead of one commit per file.
    """
    try:
        import ctypes

        sync = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return False
    fd = os.open(path, _READ)
    try:
        return bool(sync(fd) == 0)
    finally:
        os.close(fd)

"""Receives packs of blobs and stores the blobs in files."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from windlass.worker.blobs.digest import is_digest
from windlass.worker.blobs.manifest import blobs_of, decode
from windlass.worker.blobs.verified_reads import LARGEST_MANIFEST
from windlass.worker.common.atomic_files import make_folder

if TYPE_CHECKING:
    from windlass.server.stores.blobs.files import FileBlobStore

INCOMING = ".in-"  # name prefix of an unfinished upload
_BATCH = 128  # blobs that are synced together; each of them is an open file
_AT_A_TIME = 16


class FileBlobUploads:
    """Receives the blobs in one request and syncs them to disk in batches.

    A disk can sync many files together almost as fast as one file. Syncing 10,000 small files one
    after another would take most of a minute. The blobs get their final names in order of arrival.
    """

    def __init__(self, store: FileBlobStore) -> None:
        self._store = store
        self._current: _IncomingBlob | None = None
        self._finished: list[_IncomingBlob] = []
        self._pool: ThreadPoolExecutor | None = None

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes to the current blob."""
        self._open_current().write(data)

    def finish(self, digest: str, *, is_manifest: bool = False) -> None:
        """End the current blob. Raise `ValueError` if its content does not have this digest.

        A manifest is dropped if a file that it lists was deleted meanwhile.
        """
        blob = self._open_current()
        blob.check(digest, is_manifest=is_manifest)
        self._current = None
        self._finished.append(blob)
        if len(self._finished) >= _BATCH:
            self.commit()

    def commit(self) -> None:
        """Sync all finished blobs and rename them to their final names."""
        if len(self._finished) == 1:
            self._finished[0].sync()
        elif self._finished:
            self._pool = self._pool or ThreadPoolExecutor(_AT_A_TIME, "windlass-sync")
            list(self._pool.map(_IncomingBlob.sync, self._finished))
        while self._finished:
            # If `put` fails, this blob is discarded, and the next commit continues after it.
            with closing(self._finished.pop(0)) as blob:
                blob.put()

    def close(self) -> None:
        """Discard all blobs that were not committed."""
        if self._pool is not None:
            self._pool.shutdown()
        for blob in (*self._finished, self._current):
            if blob is not None:
                blob.close()
        self._finished.clear()
        self._current = None

    def _open_current(self) -> _IncomingBlob:
        if self._current is None:
            self._current = _IncomingBlob(self._store)
        return self._current


class _IncomingBlob:
    """A blob in a temporary file, which readers cannot see until `put` is called."""

    def __init__(self, store: FileBlobStore) -> None:
        self._store = store
        self._hasher = hashlib.sha256()
        self._digest = ""
        self._is_manifest = False
        handle, self._name = tempfile.mkstemp(prefix=INCOMING, dir=store.root)
        self._file = os.fdopen(handle, "wb")

    def write(self, data: bytes | memoryview) -> None:
        self._hasher.update(data)
        self._file.write(data)

    def check(self, digest: str, *, is_manifest: bool) -> None:
        actual = self._hasher.hexdigest()
        if actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        self._file.flush()
        if is_manifest and self._file.tell() > LARGEST_MANIFEST:
            raise ValueError("a manifest is larger than 64 MB")
        self._digest, self._is_manifest = digest, is_manifest

    def sync(self) -> None:
        os.fsync(self._file.fileno())

    def put(self) -> None:
        """Rename the file to its final name, unless a blob that this manifest needs is missing."""
        self._file.close()
        needed = _needed_by(self._name) if self._is_manifest else ()
        if self._store.may_come(self._digest, needed):
            put_in_place(self._name, self._store.path(self._digest))
            self._name = ""

    def close(self) -> None:
        """Delete the temporary file unless it has become a blob."""
        self._file.close()
        if self._name:
            os.unlink(self._name)
            self._name = ""


def _needed_by(path: str) -> Iterable[str]:
    """Return the digests of the blobs that a manifest lists."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        # Do not search the text for digests, because a file name may look like one.
        return [digest for digest in blobs_of(decode(data)) if is_digest(digest)]
    except (KeyError, TypeError, ValueError, IndexError, RecursionError):
        return ()  # the manifest is invalid, and a later restore will report that


def put_in_place(temporary: str, target: str) -> None:
    """Rename a file to its final name. Create the target's folder if necessary."""
    try:
        os.replace(temporary, target)
    except FileNotFoundError:
        make_folder(os.path.dirname(target), 0o700)
        os.replace(temporary, target)

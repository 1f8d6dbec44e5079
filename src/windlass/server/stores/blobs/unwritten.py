"""Keeps small blobs of new trials in the table `unwritten_blobs` until their files are written.

Creating and syncing a file takes longer than storing a trial. A small blob, such as a call, is
therefore first stored as a database row, in the same transaction as its trial. Its file is written
as soon as something needs the file, or once no trial has been submitted for some seconds. When the
files are durable, their rows are deleted. After a power failure, files whose rows still exist may
be damaged, so the next server writes these files again.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from windlass.server.db.base import Connection, Database
from windlass.server.db.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from windlass.server.stores.blobs.files import FileBlobStore

LARGEST_ROW = 16 * 1024  # bytes in a blob
_MOST_WAITING = 32 << 20  # bytes in all blobs that have no file
_QUIET = 3.0  # seconds without a new blob before the files are written
_BATCH = 500
_log = logging.getLogger("windlass")


class UnwrittenBlobs:
    """Adds blobs to the table and writes their files in a separate thread."""

    def __init__(self, database: Database, store: FileBlobStore) -> None:
        self._db = database
        self._store = store
        self._size = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        rows = database.read(lambda connection: connection.rows("SELECT * FROM unwritten_blobs"))
        if rows:
            self._take({row["digest"]: row["data"] for row in rows})

    def accepts(self, data: bytes) -> bool:
        """Return whether a blob is small enough to be stored in the table `unwritten_blobs`."""
        return len(data) <= LARGEST_ROW and self._size + len(data) <= _MOST_WAITING

    def insert(self, connection: Connection, blobs: Mapping[str, bytes]) -> None:
        """Add blobs to the table `unwritten_blobs`. Call `inserted` after the commit."""
        connection.run_many(
            "INSERT INTO unwritten_blobs (digest, data) VALUES (:digest, :data)"
            " ON CONFLICT (digest) DO NOTHING",
            [{"digest": digest, "data": data} for digest, data in blobs.items()],
        )

    def inserted(self, blobs: Mapping[str, bytes]) -> None:
        """Make blobs in the table available to readers, and schedule writing their files."""
        if blobs:
            self._take(blobs)

    def close(self) -> None:
        """Stop the thread that writes blobs to files.

        The next server writes the remaining blobs.
        """
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _take(self, blobs: Mapping[str, bytes]) -> None:
        self._store.add_unwritten(blobs)
        with self._changed:
            self._size += sum(map(len, blobs.values()))
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._write_when_quiet, name="windlass-blobs", daemon=True
                )
                self._thread.start()

    def _write_when_quiet(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._size or self._is_closed)
                while not self._is_closed and self._size < _MOST_WAITING // 2:
                    if not self._changed.wait(_QUIET):
                        break
                if self._is_closed:
                    return
            try:
                self._write_files()
            except (OSError, DatabaseUnavailable) as error:  # the disk may be full; the rows remain
                _log.warning("small blobs stay in the database: %s", error)
                with self._changed:
                    self._changed.wait_for(lambda: self._is_closed, timeout=60.0)

    def _write_files(self) -> None:
        """Write the files of all blobs in the table, sync the files, and then delete the rows."""
        digests = self._store.unwritten()
        for start in range(0, len(digests), _BATCH):
            if self._is_closed:
                return
            batch = digests[start : start + _BATCH]
            for digest in batch:
                self._store.write_out(digest)
            _sync(str(self._store.root), [self._store.path(digest) for digest in batch])
            self._db.write(
                lambda connection, batch=batch: connection.run_many(  # type: ignore[misc]
                    "DELETE FROM unwritten_blobs WHERE digest = :digest",
                    [{"digest": digest} for digest in batch],
                )
            )
            size = self._store.forget_unwritten(batch)
            with self._changed:
                self._size -= size


def check_digest(data: bytes, digest: str) -> None:
    """Raise `ValueError` unless the bytes have this digest."""
    actual = hashlib.sha256(data).hexdigest()
    if actual != digest:
        raise ValueError(f"the bytes have the digest {actual}, not {digest}")


def _sync(folder: str, paths: Sequence[str]) -> None:
    """Sync files and their names to disk, using a single call if the system offers it."""
    syncfs = getattr(ctypes.CDLL(None), "syncfs", None)
    if syncfs is not None:
        _with_descriptor(folder, syncfs)
        return
    for path in (*paths, *{os.path.dirname(path) for path in paths}):
        _with_descriptor(path, os.fsync)


def _with_descriptor(path: str, act: Callable[[int], object]) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if act(fd):  # only `syncfs` returns anything
            raise OSError(f"{path} cannot be synced")
    finally:
        os.close(fd)

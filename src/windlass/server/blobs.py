"""Content-addressed blobs in files: code, payloads, results.

A blob is written under a temporary name and renamed into place, so that what has
a name is whole. Writing one that exists is no work.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from windlass.worker.files import remove_if_there, write_bytes

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHUNK = 1 << 20
_BATCH = 128  # each is an open file
_AT_A_TIME = 16
_INCOMING = ".in-"  # what has no name yet


class BlobStore:
    """Blobs below one directory.

    >>> store = BlobStore(Path(tempfile.mkdtemp()))
    >>> digest = store.put(b"hello")
    >>> store.get(digest)
    b'hello'
    """

    def __init__(self, path: Path) -> None:
        self._root = str(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        return Path(self._root)

    def path(self, digest: str) -> Path:
        """Where that blob lies, whether or not it is there."""
        return Path(self.place(digest))

    def place(self, digest: str) -> str:
        """The same, as text."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no sha256 digest")
        return f"{self._root}/{digest[:2]}/{digest}"

    def has(self, digest: str) -> bool:
        """Whether the blob is here."""
        return os.path.exists(self.place(digest))

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those of the digests that are not here, once each."""
        return [digest for digest in dict.fromkeys(digests) if not self.has(digest)]

    def get(self, digest: str) -> bytes:
        """The bytes of a blob."""
        with open(self.place(digest), "rb") as file:
            return file.read()

    def size(self, digest: str) -> int:
        """How long a blob is."""
        return os.stat(self.place(digest)).st_size

    def put(self, data: bytes, *, digest: str | None = None) -> str:
        """Keep some bytes. With a digest given, they must have it."""
        actual = hashlib.sha256(data).hexdigest()
        if digest is not None and actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        target = self.place(actual)
        if not os.path.exists(target):
            temporary = f"{self._root}/{_INCOMING}{actual}-{threading.get_ident()}"
            write_bytes(temporary, data, durable=True)
            put_in_place(temporary, target)
        return actual

    def sweep(self) -> None:
        """Remove what servers that were killed had begun to write; for a start."""
        for name in os.listdir(self._root):
            if name.startswith(_INCOMING):
                remove_if_there(f"{self._root}/{name}")

    def incoming(self) -> IncomingBlob:
        """A blob that arrives in pieces."""
        return IncomingBlob(self)

    def take(self, source: Path) -> tuple[str, int]:
        """Move a file in; the digest and the size it has."""
        hasher = hashlib.sha256()
        size = 0
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                hasher.update(chunk)
                size += len(chunk)
        digest = hasher.hexdigest()
        target = self.place(digest)
        if not os.path.exists(target):
            # A link, not a move: whoever is killed in between finds the source again.
            temporary = f"{self._root}/{_INCOMING}{digest}-{threading.get_ident()}"
            remove_if_there(temporary)
            os.link(source, temporary)
            put_in_place(temporary, target)
        return digest, size


class IncomingBlob:
    """A blob being written; nothing of it is seen until it is `put`."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._hasher = hashlib.sha256()
        self._digest = ""
        handle, self._name = tempfile.mkstemp(prefix=_INCOMING, dir=store.root)
        self._file = os.fdopen(handle, "wb")

    def __enter__(self) -> IncomingBlob:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._name:
            os.unlink(self._name)

    def write(self, data: bytes | memoryview) -> None:
        """Add some bytes."""
        self._hasher.update(data)
        self._file.write(data)

    def check(self, digest: str) -> None:
        """Refuse bytes that have another digest."""
        actual = self._hasher.hexdigest()
        if actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        self._file.flush()
        self._digest = digest

    def sync(self) -> None:
        """Have all of it on the disk."""
        os.fsync(self._file.fileno())

    def put(self) -> None:
        """Give the blob its name, once it is checked and on the disk."""
        put_in_place(self._name, self._store.place(self._digest))
        self._name = ""
        self._file.close()


class Arrivals:
    """Blobs that have arrived whole and have no name yet: many are put on the disk at once.

    The disk takes many at a time in little more than the time of one, and one after the other
    10,000 small files would take most of a minute. They get their names in their order.
    """

    def __init__(self) -> None:
        self._waiting: list[IncomingBlob] = []
        self._pool: ThreadPoolExecutor | None = None

    def add(self, blob: IncomingBlob) -> None:
        """Take in a blob that was checked."""
        self._waiting.append(blob)
        if len(self._waiting) >= _BATCH:
            self.settle()

    def settle(self) -> None:
        """Have all that came on the disk, under their names."""
        if len(self._waiting) == 1:
            self._waiting[0].sync()
        elif self._waiting:
            self._pool = self._pool or ThreadPoolExecutor(_AT_A_TIME, "windlass-sync")
            list(self._pool.map(IncomingBlob.sync, self._waiting))
        for blob in self._waiting:
            blob.put()
        self._waiting.clear()

    def close(self) -> None:
        """Let go of what has no name."""
        if self._pool is not None:
            self._pool.shutdown()
        for blob in self._waiting:
            blob.__exit__()
        self._waiting.clear()


def put_in_place(temporary: str, target: str) -> None:
    """Give a file its name, in a folder that is made with its first file."""
    try:
        os.replace(temporary, target)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        os.replace(temporary, target)

"""Content-addressed blobs in files: code, payloads, results.

A blob is written under a temporary name and renamed into place, so that what has
a name is whole. Writing one that exists is no work.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CHUNK = 1 << 20


class BlobStore:
    """Blobs below one directory.

    >>> store = BlobStore(Path(tempfile.mkdtemp()))
    >>> digest = store.put(b"hello")
    >>> store.get(digest)
    b'hello'
    """

    def __init__(self, path: Path) -> None:
        self._root = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def root(self) -> Path:
        return self._root

    def path(self, digest: str) -> Path:
        """Where that blob lies, whether or not it is there."""
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{digest!r} is no sha256 digest")
        return self._root / digest[:2] / digest

    def has(self, digest: str) -> bool:
        """Whether the blob is here."""
        return os.path.exists(self.path(digest))

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those of the digests that are not here, once each."""
        return [digest for digest in dict.fromkeys(digests) if not self.has(digest)]

    def get(self, digest: str) -> bytes:
        """The bytes of a blob."""
        return self.path(digest).read_bytes()

    def size(self, digest: str) -> int:
        """How long a blob is."""
        return self.path(digest).stat().st_size

    def put(self, data: bytes, *, digest: str | None = None) -> str:
        """Keep some bytes. With a digest given, they must have it."""
        actual = hashlib.sha256(data).hexdigest()
        if digest is not None and actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        if not self.has(actual):
            with self.incoming() as blob:
                blob.write(data)
                blob.keep(actual)
        return actual

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
        target = self.path(digest)
        if not target.exists():
            target.parent.mkdir(mode=0o700, exist_ok=True)
            # A link, not a move: whoever is killed in between finds the source again.
            temporary = target.with_name(f".{digest}.{os.getpid()}")
            temporary.unlink(missing_ok=True)
            os.link(source, temporary)
            os.replace(temporary, target)
        return digest, size


class IncomingBlob:
    """A blob being written; nothing of it is seen until `keep`."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._hasher = hashlib.sha256()
        handle, self._name = tempfile.mkstemp(prefix=".in-", dir=store.root)
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

    def keep(self, digest: str) -> None:
        """Give the blob its name, if the bytes have that digest."""
        actual = self._hasher.hexdigest()
        if actual != digest:
            raise ValueError(f"the bytes have the digest {actual}, not {digest}")
        self._file.flush()
        os.fsync(self._file.fileno())
        target = self._store.path(digest)
        target.parent.mkdir(mode=0o700, exist_ok=True)
        os.replace(self._name, target)
        self._name = ""

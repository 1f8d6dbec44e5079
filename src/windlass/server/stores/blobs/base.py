"""The protocol of a blob store, which keeps immutable byte sequences named by their digest.

Callers never see a blob's path, so blobs may be files or objects in object storage. Methods raise
`ValueError` for a text that is not a digest, and `FileNotFoundError` if a blob to read is missing
or damaged.

A manifest is a blob that lists the files of a tree. The store does not record which blobs are
manifests: a client states this when it sends a blob, and in a record, the field that refers to the
blob implies it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol


class BlobStore(Protocol):
    """Stores blobs by their digest. All methods are thread-safe."""

    def has(self, digest: str, /) -> bool:
        """Return whether the store has a blob.

        If so, garbage collection keeps the blob for a while.
        """

    def missing(self, digests: Iterable[str], /, *, trees: Iterable[str] = ()) -> list[str]:
        """Return, without duplicates, the digests whose blobs the store does not have.

        `trees` are the digests of manifests. A manifest also counts as missing if a file that it
        lists was found to be damaged.
        """

    def size(self, digest: str, /) -> int:
        """Return the size of a blob in bytes."""

    def get(self, digest: str, /) -> bytes:
        """Return the content of a blob after verifying it.

        Raise `ValueError` if the blob is larger than any manifest.
        """

    def open(self, digest: str, /, *, verify: bool = True) -> BinaryIO:
        """Open the content of a blob for reading.

        The content of a very large blob is not verified.
        """

    def put(self, data: bytes, /, *, digest: str | None = None) -> str:
        """Store some bytes and return their digest.

        Raise `ValueError` if `digest` is not the digest of the bytes.
        """

    def put_file(self, source: Path, /) -> tuple[str, int]:
        """Store a file's content without moving the file. Return the content's digest and size."""

    def put_upload(self, source: Path, digest: str, /) -> None:
        """Store a file that was written to `upload_path`.

        The caller must have checked and synced the file.
        """

    def upload_path(self) -> Path:
        """Return a new path for an upload on the server's disk.

        A file that remains there is deleted when the server next starts.
        """

    def start_uploads(self) -> BlobUploads:
        """Start receiving a pack of blobs."""

    def check_space(self, size: int = 0, /) -> None:
        """Raise `NoSpace` if the server's disk has too little space for an upload of this size."""

    def held(self) -> AbstractContextManager[None]:
        """Suspend garbage collection, so that blobs found inside the block exist until its end."""

    def discard_unfinished(self, trial_id: int, /) -> None:
        """Delete partial blobs that a finished trial's processes left behind."""


class BlobUploads(Protocol):
    """Receives blobs one after another, each in pieces."""

    def write(self, data: bytes | memoryview, /) -> None:
        """Append bytes to the current blob."""

    def finish(self, digest: str, /, *, is_manifest: bool = False) -> None:
        """End the current blob. Raise `ValueError` if its content does not have this digest.

        A manifest is dropped if a file that it lists was deleted meanwhile.
        """

    def commit(self) -> None:
        """Store all finished blobs durably."""

    def close(self) -> None:
        """Discard all blobs that were not committed."""

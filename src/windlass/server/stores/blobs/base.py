"""The protocol of a blob store: immutable contents, named by their digest.

Callers never see a path of a blob, so the contents may lie in files or in object storage. A
method that gets a text which is not a digest raises `ValueError`, and a method that reads a
missing or damaged blob raises `FileNotFoundError`.

The store does not know the kind of a blob. A sender says which blobs are manifests, and a record
says which blob is a manifest by the place where it refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol


class BlobStore(Protocol):
    """Blobs by their digest. All methods may be called from any thread."""

    def has(self, digest: str, /) -> bool:
        """Whether the store has the blob. If so, garbage collection keeps it for a while."""

    def missing(self, digests: Iterable[str], /, *, trees: Iterable[str] = ()) -> list[str]:
        """The digests of which the store has no blob, without repetitions.

        Manifests in `trees` are also missing if a damaged file of them was set aside.
        """

    def size(self, digest: str, /) -> int:
        """The size of a blob in bytes."""

    def get(self, digest: str, /) -> bytes:
        """The verified content of a blob; `ValueError` if it is larger than any manifest."""

    def open(self, digest: str, /, *, verify: bool = True) -> BinaryIO:
        """The content of a blob as a file to read from. A very large blob is not verified."""

    def put(self, data: bytes, /, *, digest: str | None = None) -> str:
        """Store some bytes and return their digest; `ValueError` if it is not `digest`."""

    def put_file(self, source: Path, /) -> tuple[str, int]:
        """Store the content of a file that stays in place: its digest and its size."""

    def put_upload(self, source: Path, digest: str, /) -> None:
        """Move a file from `upload_path` in. The caller has checked and synced its content."""

    def upload_path(self) -> Path:
        """A new path for an upload, on the disk of this server. The next start clears it."""

    def start_uploads(self) -> BlobUploads:
        """Start to receive a pack of blobs."""

    def check_space(self, size: int = 0, /) -> None:
        """Raise `NoSpace` if the disk of this server has too little space for an upload."""

    def held(self) -> AbstractContextManager[None]:
        """Suspend garbage collection: blobs found inside the block stay until its end."""

    def discard_unfinished(self, trial_id: int, /) -> None:
        """Delete partial blobs that the processes of a finished trial left."""


class BlobUploads(Protocol):
    """Blobs that arrive one after the other, in pieces."""

    def write(self, data: bytes | memoryview, /) -> None:
        """Append to the current blob."""

    def finish(self, digest: str, /, *, is_manifest: bool = False) -> None:
        """End the current blob; `ValueError` if its content has another digest.

        A manifest is dropped if a file of it was deleted meanwhile.
        """

    def commit(self) -> None:
        """Store all finished blobs durably."""

    def close(self) -> None:
        """Discard all blobs that are not committed."""

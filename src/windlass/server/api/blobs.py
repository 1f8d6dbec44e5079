"""Uploads and downloads of blobs: byte sequences that are named by their digest.

A client first asks which blobs the server lacks, then uploads all of them in one request.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import Annotated

from msgspec import Meta

from windlass.model.errors import InvalidArgument, NotFound
from windlass.model.requests import API, MANIFEST_FLAG, BlobsAnswer, FetchBlobs, SnapshotAnswer
from windlass.packaging.manifest import parse_manifest
from windlass.server.services import Services
from windlass.server.stores.blobs.base import BlobStore
from windlass.server.web.messages import OCTETS, Answer, Request, file_answer
from windlass.server.web.routing import Route
from windlass.worker.blobs.verified_reads import LARGEST_MANIFEST

_ONE = "(b3-)?[0-9a-f]{64}"
Digests = Annotated[str, Meta(pattern=rf"^{_ONE}(,{_ONE}){{0,99}}\Z")]  # joined by commas

_HEADER = 40
_AT_ONCE = 1 << 20
_LARGEST_BLOB = 8 << 30
_LARGEST_LIST = 2 << 20  # the most bytes in a list of digests to download


async def check_snapshot(request: Request, services: Services) -> SnapshotAnswer:
    """Return the digests of blobs that a snapshot needs but the server lacks.

    If no blob is missing, the server stores the snapshot's manifest.
    """
    blobs = services.blobs
    manifest = await request.body()
    return await asyncio.to_thread(_check, blobs, manifest)


def _check(blobs: BlobStore, manifest: bytes) -> SnapshotAnswer:
    import hashlib

    missing = list_missing(blobs, manifest)
    tree = hashlib.sha256(manifest).hexdigest()
    if not missing:
        blobs.put(manifest, digest=tree)
    return SnapshotAnswer(tree=tree, missing=tuple(missing))


def list_missing(blobs: BlobStore, manifest: bytes) -> list[str]:
    """Return the digests of blobs that a manifest names but the server does not have."""
    try:
        entries = parse_manifest(manifest)
    except ValueError as error:
        raise InvalidArgument(f"This is not a valid snapshot: {error}.") from error
    return blobs.missing(entry.ref for entry in entries if entry.mode != "l")


async def missing_blobs(
    services: Services, digests: Digests, tree: Digests | None = None
) -> BlobsAnswer:
    """Return the requested digests whose blobs the server does not have.

    `tree` lists the digests that belong to manifests. A manifest also counts as missing while the
    server lacks any of its files.
    """
    trees = tree.split(",") if tree else ()
    return BlobsAnswer(missing=tuple(services.blobs.missing(digests.split(","), trees=trees)))


async def upload_blobs(request: Request, services: Services) -> dict[str, int]:
    """Store a pack of blobs.

    A pack contains this sequence for each blob: digest (32 bytes), kind (1 byte), length (7 bytes),
    content. The kind is 1 for a manifest, which lists the files of a tree, and 0 for any other
    content. A manifest comes after the files that it lists.
    """
    intake = _Intake(services.blobs)
    waiting, size = [], 0
    try:
        async for chunk in request.stream():
            waiting.append(chunk)
            size += len(chunk)
            if size >= _AT_ONCE:  # hash and sync in a thread, so that other requests do not wait
                await asyncio.to_thread(intake.feed, b"".join(waiting))
                waiting, size = [], 0
        await asyncio.to_thread(intake.feed, b"".join(waiting))
        await asyncio.to_thread(intake.settle)
    finally:
        intake.close()
    if intake.is_torn:
        raise InvalidArgument("The pack ends in the middle of a blob.")
    return {"stored": intake.stored}


class _Intake:
    """Reads a pack of blobs as it arrives and stores the blobs."""

    def __init__(self, blobs: BlobStore) -> None:
        self._uploads = blobs.start_uploads()
        self._header = bytearray()
        self._is_in_blob = False
        self._left = 0
        self._digest = ""
        self._is_manifest = False
        self.stored = 0

    @property
    def is_torn(self) -> bool:
        return self._is_in_blob or bool(self._header)

    def feed(self, chunk: bytes) -> None:
        view = memoryview(chunk)
        while view:
            if not self._is_in_blob:
                need = _HEADER - len(self._header)
                self._header += view[:need]
                view = view[need:]
                if len(self._header) == _HEADER:
                    self._begin()
            else:
                piece = view[: self._left]
                self._uploads.write(piece)
                self._left -= len(piece)
                view = view[len(piece) :]
            if self._is_in_blob and not self._left:
                self._finish()

    def settle(self) -> None:
        """Store all blobs of the pack that have arrived completely."""
        self._uploads.commit()

    def close(self) -> None:
        """Store the complete blobs of a truncated or damaged pack, and discard the others."""
        with contextlib.suppress(OSError):
            self._uploads.commit()
        self._uploads.close()

    def _begin(self) -> None:
        self._digest = self._header[:32].hex()
        number = int.from_bytes(self._header[32:], "big")
        self._is_manifest = bool(number & MANIFEST_FLAG)
        self._left = number & ~MANIFEST_FLAG
        self._header.clear()
        if self._left > _LARGEST_BLOB:
            raise InvalidArgument("A blob in the pack is larger than 8 GB.")
        self._is_in_blob = True

    def _finish(self) -> None:
        try:
            self._uploads.finish(self._digest, is_manifest=self._is_manifest)
        except ValueError as error:
            raise InvalidArgument(f"A blob in the pack is damaged: {error}.") from error
        self._is_in_blob = False
        self.stored += 1


async def get_blob(services: Services, digest: str) -> Answer:
    """Return the bytes of a blob."""
    blobs = services.blobs
    try:
        return await asyncio.to_thread(file_answer, partial(blobs.open, digest))
    except (ValueError, FileNotFoundError) as error:
        raise NotFound(f"There is no blob {digest[:80]}.") from error


async def fetch_blobs(data: FetchBlobs, services: Services) -> Answer:
    """Return a pack of the requested blobs. Missing blobs are left out."""
    blobs = services.blobs
    sizes = await asyncio.to_thread(_sizes, blobs, data.digests)
    length = sum(_HEADER + size for size in sizes.values())
    # Send the total length, so that a client can detect a truncated pack.
    headers = {"Content-Length": str(length)}
    return Answer(_packed(blobs, sizes), media_type=OCTETS, headers=headers)


def _sizes(blobs: BlobStore, digests: tuple[str, ...]) -> dict[str, int]:
    sizes = {}
    for digest in dict.fromkeys(digests):
        try:
            with blobs.open(digest) as file:  # also raises FileNotFoundError for a damaged blob
                sizes[digest] = file.seek(0, os.SEEK_END)
        except FileNotFoundError:
            continue
    return sizes


async def _packed(blobs: BlobStore, sizes: dict[str, int]) -> AsyncGenerator[bytes, None]:
    pieces = _pieces(blobs, sizes)
    while piece := await asyncio.to_thread(next, pieces, b""):
        yield piece


def _pieces(blobs: BlobStore, sizes: dict[str, int]) -> Iterator[bytes]:
    """Yield a pack of blobs in pieces of similar size.

    A piece holds many small blobs or a part of a large one.
    """
    buffered: list[bytes] = []
    held = 0
    for digest, size in sizes.items():
        buffered.append(bytes.fromhex(digest[-64:]) + size.to_bytes(8, "big"))
        try:
            with blobs.open(digest, verify=False) as file:
                while size > 0 and (piece := file.read(min(size, _AT_ONCE))):
                    size -= len(piece)
                    buffered.append(piece)
                    held += len(piece)
                    if held >= _AT_ONCE:
                        yield b"".join(buffered)
                        buffered, held = [], 0
        except OSError:
            return  # the blob was deleted meanwhile; the client will notice missing bytes
        if size:
            return  # the file was truncated; the client will notice missing bytes
    yield b"".join(buffered)


routes = [
    Route("POST", f"{API}/snapshots", check_snapshot, largest_body=LARGEST_MANIFEST),
    Route("GET", f"{API}/blobs", missing_blobs),
    Route("POST", f"{API}/blobs", upload_blobs, largest_body=None),
    Route(
        "POST",
        f"{API}/blobs/fetch",
        fetch_blobs,
        media_type=OCTETS,
        largest_body=_LARGEST_LIST,
        is_read=True,
    ),
    Route("GET", f"{API}/blobs/{{digest}}", get_blob, media_type=OCTETS),
]

"""Uploads and downloads experiments' files in pieces, so that files of any size work."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from windlass.client.connection.transport import MissingBlobs, Transport, request_path
from windlass.model.errors import InvalidArgument, ServerError, shown
from windlass.model.records import Artifact

T = TypeVar("T")

_PIECE = 1 << 20


def keep_file(transport: Transport, path: str | os.PathLike[str], keep: Callable[[str], T]) -> T:
    """Store a file on the server and return the result of `keep`.

    `keep` is called with the digest of the file's content, and sends the request that adds the file
    to an experiment. If the server answers that it lacks the content, this function uploads the
    content and calls `keep` again.
    """
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(f"artifact: {shown(os.fspath(path))} is not a file.")
            digest, size = hashlib.sha256(), 0
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
            try:
                return keep(digest.hexdigest())
            except MissingBlobs:
                file.seek(0)
                _upload(transport, _pack(file, digest.digest(), size), path)
    except IsADirectoryError:
        raise InvalidArgument(
            f"artifact: {shown(os.fspath(path))} is a folder; an artifact is one file.",
            hint="Pack it first: shutil.make_archive('results', 'gztar', folder)",
        ) from None
    except OSError as error:
        raise InvalidArgument(
            f"artifact: {shown(os.fspath(path))} cannot be read: {error.strerror}."
        ) from error
    return keep(digest.hexdigest())


def fetch_file(transport: Transport, artifact: Artifact, folder: Path) -> Path:
    """Download an artifact to a folder.

    The file appears only once it is complete and its digest matches.
    """
    target, temporary = folder / artifact.name, folder / f".windlass-{uuid.uuid4().hex}"
    digest = hashlib.sha256()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as file:

            def write(piece: bytes) -> None:
                digest.update(piece)
                file.write(piece)

            transport.download(request_path("blobs", artifact.digest), write)
        if digest.hexdigest() != artifact.digest:
            raise ServerError(
                f"The artifact {artifact.name!r} is damaged: its digest does not match.",
                hint="Store it again: add_artifact(name, path)",
            )
        os.replace(temporary, target)
    except OSError as error:
        raise InvalidArgument(
            f"{shown(os.fspath(target))} cannot be written: {error.strerror}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return target


def _upload(transport: Transport, pack: Iterator[bytes], path: str | os.PathLike[str]) -> None:
    try:
        transport.fetch("POST", "/blobs", body=pack)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"artifact: {shown(os.fspath(path))} changed while it was read.",
            hint="Try again when no program writes to it.",
        ) from error


def _pack(file: BinaryIO, digest: bytes, size: int) -> Iterator[bytes]:
    """Yield a file's content in the upload format, up to its original size.

    The file is read while it is being sent.
    """
    yield digest + size.to_bytes(8, "big")
    left = size
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            return  # the file became shorter, so the server will reject the upload
        left -= len(piece)
        yield piece

"""Submits a prepared trial. If the server lacks blobs, one upload sends all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

from windlass.client.connection.transport import MissingBlobs, Transport
from windlass.model.errors import ServerError, ServerUnreachable, SnapshotError
from windlass.model.job import FunctionCall
from windlass.model.records import TrialRecord
from windlass.model.requests import (
    INLINE_LIMIT,
    MANIFEST_FLAG,
    BlobsAnswer,
    CreateTrial,
    SnapshotAnswer,
)
from windlass.packaging.draft import Draft
from windlass.packaging.snapshot import Snapshot, SnapshotChanged

T = TypeVar("T")


def submit(transport: Transport, draft: Draft) -> TrialRecord:
    """Submit a prepared trial, and return the record of the created trial."""
    return send(
        transport,
        draft,
        lambda request: transport.ask("POST", "/trials", TrialRecord, body=request),
    )


def send(transport: Transport, draft: Draft, ask: Callable[[CreateTrial], T]) -> T:
    """Send the request for a trial.

    If the server lacks blobs, upload them and repeat the request.
    """
    request = msgspec.structs.replace(draft.request, attachments=_inline(draft))
    taken = draft.snapshot
    for _ in range(4):
        try:
            return ask(request)
        except MissingBlobs as lacking:
            request = _supply(transport, draft, request, set(lacking.missing))
    if draft.snapshot is not None and draft.snapshot is not taken:
        raise _restless(draft.snapshot)
    raise ServerError(
        "The server repeatedly requests blobs that were already sent.",
        hint="See: windlass server logs",
    )


def upload(
    transport: Transport,
    snapshot: Snapshot,
    blobs: dict[str, bytes],
    retake: Callable[[], Snapshot],
) -> None:
    """Upload a snapshot and some blobs. Contents that the server already has are not sent."""
    for _ in range(4):
        wanted = ",".join((snapshot.tree, *blobs))
        query = {"digests": wanted, "tree": snapshot.tree}
        answer = transport.ask("GET", "/blobs", BlobsAnswer, query=query)
        if not answer.missing:
            return
        try:
            _send_missing(transport, snapshot, blobs, set(answer.missing))
        except SnapshotChanged:
            snapshot = retake()
    raise _restless(snapshot)


def _restless(snapshot: Snapshot) -> SnapshotError:
    return SnapshotError(
        f"{snapshot.root} keeps changing while it is uploaded.",
        hint="If a program writes to it, add it to .windlassignore.",
    )


def _inline(draft: Draft) -> dict[str, bytes]:
    """Return the pickled function calls of a prepared trial. The request itself contains them.

    They are small, and the server rarely has them already.
    """
    wanted = {
        digest
        for role in draft.request.spec.roles
        if isinstance(role.executable, FunctionCall)
        for digest in (role.executable.payload, role.executable.changes)
    }
    return {
        digest: data
        for digest, data in draft.blobs.items()
        if digest in wanted and len(data) <= INLINE_LIMIT
    }


def _supply(
    transport: Transport, draft: Draft, request: CreateTrial, lacking: set[str]
) -> CreateTrial:
    tree = draft.snapshot.tree if draft.snapshot else ""
    if not lacking <= {tree, *draft.blobs}:
        raise SnapshotError(
            "The server no longer has the packaged code.",
            hint="Package it again: exp.package([...])",
        )
    try:
        _send_missing(transport, draft.snapshot, draft.blobs, lacking)
    except SnapshotChanged:
        if draft.retake is None:
            raise
        draft.snapshot = draft.retake()
        code = msgspec.structs.replace(request.spec.code, tree=draft.snapshot.tree)
        return msgspec.structs.replace(
            request, spec=msgspec.structs.replace(request.spec, code=code)
        )
    return request


def _send_missing(
    transport: Transport, snapshot: Snapshot | None, blobs: dict[str, bytes], lacking: set[str]
) -> None:
    """Upload the missing blobs, and the missing files of a snapshot."""
    others = [(digest, blobs[digest]) for digest in lacking if digest in blobs]
    files: tuple[str, ...] = ()
    if snapshot is not None and snapshot.tree in lacking:
        body = snapshot.manifest
        files = transport.ask("POST", "/snapshots", SnapshotAnswer, body=body).missing

    def packed() -> Iterator[tuple[str, bytes, bool]]:
        for digest, data in others:
            yield digest, data, False
        if snapshot is not None and files:
            for digest, data in snapshot.iter_blobs(files):
                yield digest, data, False
            yield snapshot.tree, snapshot.manifest, True

    if others or files:
        _upload(transport, packed)


def _upload(transport: Transport, blobs: Callable[[], Iterator[tuple[str, bytes, bool]]]) -> None:
    try:
        transport.fetch("POST", "/blobs", body=_pack(blobs()))
    # The server stopped during the upload. Sending a blob twice does no harm.
    except ServerUnreachable:
        transport.reconnect()
        transport.fetch("POST", "/blobs", body=_pack(blobs()))


def _pack(blobs: Iterator[tuple[str, bytes, bool]]) -> Iterator[bytes]:
    """Encode blobs for the upload, and yield pieces of about 1 MiB.

    The boolean of each blob states whether the blob is the manifest of a snapshot.
    """
    buffered: list[bytes] = []
    size = 0
    for digest, data, is_manifest in blobs:
        number = len(data) | (MANIFEST_FLAG if is_manifest else 0)
        buffered += (bytes.fromhex(digest), number.to_bytes(8, "big"), data)
        size += len(data) + 40
        if size >= 1 << 20:
            yield b"".join(buffered)
            buffered, size = [], 0
    if buffered:
        yield b"".join(buffered)

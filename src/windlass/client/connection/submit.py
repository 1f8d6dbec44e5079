"""Submits a prepared trial, and uploads all blobs that the server lacks in one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from windlass.client.connection.transport import MissingBlobs, Transport
from windlass.model.errors import ServerError, ServerUnreachable, SnapshotError
from windlass.model.job import FunctionCall
from windlass.model.records import Provenance, TrialRecord
from windlass.model.requests import (
    INLINE_LIMIT,
    MANIFEST_FLAG,
    BlobsAnswer,
    CreateTrial,
    CreateTrials,
    Private,
    SnapshotAnswer,
)
from windlass.packaging.draft import Draft
from windlass.packaging.snapshot import Snapshot, SnapshotChanged

T = TypeVar("T")

_TRIES = 4
_MOST_QUERIED = 100  # digests per request
_NO_PROVENANCE = Provenance()


def submit(transport: Transport, draft: Draft) -> TrialRecord:
    """Submit a prepared trial and return the created trial's record."""
    return send(
        transport,
        draft,
        lambda request: transport.ask("POST", "/trials", TrialRecord, body=request),
    )


def send(transport: Transport, draft: Draft, ask: Callable[[CreateTrial], T]) -> T:
    """Send the request for a trial, after uploading blobs if necessary.

    If the server lacks blobs, upload them and retry the request.
    """
    request = msgspec.structs.replace(draft.request, attachments=_inline(draft))
    taken = draft.snapshot
    for _ in range(_TRIES):
        try:
            return ask(request)
        except MissingBlobs as lacking:
            request = _supply(transport, draft, request, set(lacking.missing))
    raise _failed(draft, taken)


def submit_all(transport: Transport, drafts: Sequence[Draft]) -> list[TrialRecord]:
    """Submit prepared trials of one plan in one request: the server creates all of them or none."""
    first = drafts[0]
    attachments = {digest: data for draft in drafts for digest, data in _inline(draft).items()}
    bare = Private()
    request = CreateTrials(
        trials=tuple(
            msgspec.structs.replace(draft.request, private=bare, provenance=_NO_PROVENANCE)
            for draft in drafts
        ),
        private=first.request.private,
        provenance=first.request.provenance,
        attachments=attachments,
    )
    taken = first.snapshot
    for _ in range(_TRIES):
        try:
            return transport.ask("POST", "/trials/batch", list[TrialRecord], body=request)
        except MissingBlobs as lacking:
            snapshot = _upload_missing(transport, drafts, set(lacking.missing))
        if snapshot is not None:
            trials = tuple(_with_tree(trial, snapshot) for trial in request.trials)
            request = msgspec.structs.replace(request, trials=trials)
    raise _failed(first, taken)


def upload(
    transport: Transport,
    snapshot: Snapshot,
    blobs: dict[str, bytes],
    retake: Callable[[], Snapshot],
) -> None:
    """Upload a snapshot and some blobs, except contents that the server already has."""
    for _ in range(_TRIES):
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


def _failed(draft: Draft, taken: Snapshot | None) -> Exception:
    """Return the error for a submission whose last try failed.

    `taken` is the snapshot from the first try.
    """
    if draft.snapshot is not None and draft.snapshot is not taken:
        return _restless(draft.snapshot)
    return ServerError(
        "The server repeatedly requests blobs that were already sent.",
        hint="See: windlass server logs",
    )


def _restless(snapshot: Snapshot) -> SnapshotError:
    return SnapshotError(
        f"{snapshot.root} keeps changing while it is uploaded.",
        hint="If a program writes to it, add it to .windlassignore.",
    )


def _inline(draft: Draft) -> dict[str, bytes]:
    """Return a prepared trial's pickled function calls, which are sent in the request itself.

    They are small, and the server is unlikely to have them already.
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
        if digest in wanted and digest not in draft.large and len(data) <= INLINE_LIMIT
    }


def _supply(
    transport: Transport, draft: Draft, request: CreateTrial, lacking: set[str]
) -> CreateTrial:
    if (snapshot := _upload_missing(transport, [draft], lacking)) is not None:
        return _with_tree(request, snapshot)
    return request


def _upload_missing(
    transport: Transport, drafts: Sequence[Draft], lacking: set[str]
) -> Snapshot | None:
    """Upload missing blobs for drafts with a common snapshot.

    If files have changed, return a new snapshot.
    """
    first = drafts[0]
    blobs = {digest: data for draft in drafts for digest, data in draft.blobs.items()}
    large = {digest: names for draft in drafts for digest, names in draft.large.items()}
    tree = first.snapshot.tree if first.snapshot else ""
    if not lacking <= {tree, *blobs}:
        raise SnapshotError(
            "The server no longer has the packaged code.",
            hint="Package it again: exp.package([...])",
        )
    try:
        _send_missing(transport, first.snapshot, blobs, lacking, large)
    except SnapshotChanged:
        if first.retake is None:
            raise
        snapshot = first.retake()
        for draft in drafts:
            draft.snapshot = snapshot
        return snapshot
    return None


def _with_tree(request: CreateTrial, snapshot: Snapshot) -> CreateTrial:
    code = msgspec.structs.replace(request.spec.code, tree=snapshot.tree)
    return msgspec.structs.replace(request, spec=msgspec.structs.replace(request.spec, code=code))


def _send_missing(
    transport: Transport,
    snapshot: Snapshot | None,
    blobs: Mapping[str, bytes],
    lacking: set[str],
    large: Mapping[str, Sequence[str]] = {},
) -> None:
    """Upload missing blobs and a snapshot's missing files.

    `large` maps each call's payload to its large values. A payload is uploaded after its values,
    just as a manifest is uploaded after its files.
    """
    calls = lacking & large.keys()
    values = dict.fromkeys(digest for call in calls for digest in large[call])
    others = [digest for digest in lacking if digest in blobs and digest not in calls]
    others += _missing_of(transport, [digest for digest in values if digest not in lacking])
    files: tuple[str, ...] = ()
    if snapshot is not None and snapshot.tree in lacking:
        body = snapshot.manifest
        files = transport.ask("POST", "/snapshots", SnapshotAnswer, body=body).missing

    def packed() -> Iterator[tuple[str, bytes, bool]]:
        for digest in others:
            yield digest, blobs[digest], False
        for digest in calls:
            yield digest, blobs[digest], True
        if snapshot is not None and files:
            for digest, data in snapshot.iter_blobs(files):
                yield digest, data, False
            yield snapshot.tree, snapshot.manifest, True

    if others or calls or files:
        _upload(transport, packed)


def _missing_of(transport: Transport, digests: Sequence[str]) -> list[str]:
    """Return those of the digests whose blobs the server lacks."""
    missing: list[str] = []
    for start in range(0, len(digests), _MOST_QUERIED):
        query = {"digests": ",".join(digests[start : start + _MOST_QUERIED])}
        missing += transport.ask("GET", "/blobs", BlobsAnswer, query=query).missing
    return missing


def _upload(transport: Transport, blobs: Callable[[], Iterator[tuple[str, bytes, bool]]]) -> None:
    try:
        transport.fetch("POST", "/blobs", body=_pack(blobs()))
    # The server stopped during the upload. Sending a blob again does no harm.
    except ServerUnreachable:
        transport.reconnect()
        transport.fetch("POST", "/blobs", body=_pack(blobs()))


def _pack(blobs: Iterator[tuple[str, bytes, bool]]) -> Iterator[bytes]:
    """Encode blobs as a pack for an upload, in pieces of about 1 MiB.

    Each blob is a tuple of its digest, its content, and whether it is a snapshot's manifest.
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

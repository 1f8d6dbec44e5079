"""The endpoints for agents, which run attempts on remote machines.

An agent gets orders for its attempt, such as to stop it, and uploads the attempt's files. Every
request can be repeated safely. An upload of growing files, such as logs, starts with a line of JSON
that lists `[file, start, length]` for each piece. The bytes of the pieces follow in the same order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from windlass.model.errors import InvalidArgument, NotFound
from windlass.model.job import BlobDigest, RoleName
from windlass.model.requests import BlobsAnswer, FetchBlobs
from windlass.model.status import ReplicaId
from windlass.model.thread_safe_types import learned
from windlass.runtimes import paths
from windlass.runtimes.kubernetes.agents.last_seen import AGENTS_LAST_SEEN
from windlass.server.api.blobs import fetch_blobs, get_blob
from windlass.server.errors import MissingBlobs
from windlass.server.services import Services
from windlass.server.stores.agent_uploads import (
    GROWING,
    LEFT_BEHIND,
    LogPiece,
    Part,
    RemoteAttemptFiles,
)
from windlass.server.stores.blobs.upload import CHECK_EVERY, IncomingFile
from windlass.server.stores.checkpoints.store import SavedRecord
from windlass.server.web.agent_token import AGENTS
from windlass.server.web.messages import OCTETS, Answer, Request
from windlass.server.web.routing import Route
from windlass.worker.blobs.digest import is_digest, kind_of
from windlass.worker.common.atomic_files import remove_if_there, write_json
from windlass.worker.common.file_reads import read_json

_LARGEST_SHIPMENT = 16 << 20
_LARGEST_LIST = 2 << 20
_PATIENCE = 25.0  # seconds after which a long poll returns although the orders did not change
_AT_ONCE = 1 << 20
_SMALL = 1 << 20

_log = logging.getLogger("windlass")

Count = Annotated[int, Meta(ge=0, lt=10**9)]
_Line = Annotated[str, Meta(max_length=300)]
_Position = Annotated[int, Meta(ge=0, le=2**62)]


class _PartHead(msgspec.Struct, array_like=True):
    name: Annotated[str, Meta(max_length=40)]
    start: _Position
    length: Annotated[int, Meta(ge=0, le=_LARGEST_SHIPMENT)]


class Ended(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end of an attempt as recorded by its supervisor."""

    exit_code: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] | None = None
    signal: Annotated[str, Meta(max_length=100)] = ""
    reason: Annotated[str, Meta(max_length=1000)] = ""
    message: Annotated[str, Meta(max_length=10_000)] = ""
    started: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    ended: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    taken_away: bool = False  # the runtime removed the agent, for example by deleting its pod


class Facts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Facts about an agent's machine as reported by the agent."""

    python: Annotated[str, Meta(max_length=100)] = ""
    platform: Annotated[str, Meta(max_length=200)] = ""
    packages: Annotated[list[_Line], Meta(max_length=5000)] = []


async def begin(
    services: Services, uid: str, role: str, index: int, attempt: int, data: Facts
) -> dict[str, Any]:
    """Return the data that an agent needs to start its attempt, such as the launch file.

    The data also includes the trial's secrets and newest checkpoint.
    """
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    launch = attempt_files.check()
    await asyncio.to_thread(attempt_files.note_taken_up, msgspec.to_builtins(data))
    job, _ = await asyncio.to_thread(_load, services, uid)
    private = read_json(str(services.private.path(uid))) or {}
    await asyncio.to_thread(_note, services, attempt_files, data)
    _log.info(
        "trial %d: an agent has %s, with Python %s", job.trial_id, attempt_files.name, data.python
    )
    return {
        "launch": launch,
        "private": {"secrets": private.get("secrets") or {}},
        "python_version": job.spec.python.version,
        "checkpoint": await asyncio.to_thread(attempt_files.newest_checkpoint),
    }


def _note(services: Services, attempt_files: RemoteAttemptFiles, facts: Facts) -> None:
    """Store facts about the agent's machine in the attempt's directory."""
    listed = "".join(f"{line}\n" for line in facts.packages).encode("utf-8", "replace")
    stored = {
        "python": facts.python,
        "platform": facts.platform,
        "packages": services.blobs.put(listed) if listed else None,
    }
    write_json(str(attempt_files.path / paths.FACTS), stored)


async def ship(
    request: Request, services: Services, uid: str, role: str, index: int, attempt: int
) -> dict[str, dict[str, int]]:
    """Append new data to an attempt's files and return the stored size of each file."""
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    parts = _parts(await request.body())
    return {"sizes": await asyncio.to_thread(attempt_files.take, parts)}


def _parts(body: bytes) -> list[LogPiece]:
    head, _, data = body.partition(b"\n")
    listed = msgspec.json.decode(head, type=learned(list[_PartHead]))
    parts, at = [], 0
    for entry in listed:
        if entry.name not in GROWING and entry.name != paths.STATE:
            raise InvalidArgument(f"{entry.name!r} is not a growing file.")
        parts.append(LogPiece(entry.name, entry.start, data[at : at + entry.length]))
        at += entry.length
    if at != len(data):
        raise InvalidArgument("The upload does not have the announced length.")
    return parts


async def put_file(
    request: Request, services: Services, uid: str, role: str, index: int, attempt: int, name: str
) -> dict[str, int]:
    """Store a complete file that an attempt wrote, such as its result."""
    if name not in LEFT_BEHIND:
        raise NotFound(f"An attempt does not write {name[:80]!r}.")
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    # Accept small files even on a full disk, because they record how a trial ended.
    keep = partial(attempt_files.put_file, name)
    return await _receive(request, services, keep, room_from=_SMALL)


async def put_output(
    request: Request,
    services: Services,
    uid: str,
    role: str,
    index: int,
    attempt: int,
    path: Annotated[str, Meta(min_length=1, max_length=20_000)],
) -> dict[str, int]:
    """Store a file of an attempt's output folder."""
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    return await _receive(
        request, services, lambda incoming: attempt_files.put_output(path, incoming)
    )


async def put_blob(
    request: Request, services: Services, uid: str, role: str, index: int, attempt: int, digest: str
) -> dict[str, int]:
    """Store one of a checkpoint's blobs."""
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    if not is_digest(digest):
        raise InvalidArgument(f"{digest[:100]!r} is not a digest.")
    hasher = kind_of(digest).hasher()

    def keep(incoming: Path) -> None:
        if kind_of(digest).digest(hasher) != digest:
            raise InvalidArgument("A blob was damaged during the upload.")
        services.blobs.put_upload(incoming, digest)

    return await _receive(request, services, keep, hasher)


async def room(
    services: Services,
    uid: str,
    role: str,
    index: int,
    attempt: int,
    size: Annotated[int, Meta(ge=0, le=2**62)],
) -> dict[str, bool]:
    """Return whether the disk has space for an upload of this size.

    Agents send this request before an upload.
    """
    _attempt_files(services, uid, role, index, attempt).check()
    services.blobs.check_space(size)
    return {"has_room": True}


async def _receive(
    request: Request,
    services: Services,
    keep: Callable[[Path], None],
    hasher: Any = None,
    *,
    room_from: int = 0,
) -> dict[str, int]:
    """Write a request body to a temporary file, sync it to disk, and pass its path to `keep`."""
    length = request.header(b"content-length")
    expected = int(length) if length.isdecimal() else CHECK_EVERY
    if expected >= room_from:
        services.blobs.check_space(expected)
    path = services.blobs.upload_path()
    try:
        with IncomingFile(path, hasher) as incoming:
            waiting, size = [], 0
            async for piece in request.stream():
                waiting.append(piece)
                size += len(piece)
                # Hash and sync in a thread, so that other requests do not wait.
                if size >= _AT_ONCE:
                    await asyncio.to_thread(incoming.add, b"".join(waiting))
                    waiting, size = [], 0
            await asyncio.to_thread(incoming.add, b"".join(waiting))
            await asyncio.to_thread(incoming.settle)
        await asyncio.to_thread(keep, path)
    finally:
        remove_if_there(str(path))
    return {"size": incoming.size}


class BlobDigests(msgspec.Struct, frozen=True, kw_only=True):
    """The digests of blobs that an agent may have to upload."""

    digests: Annotated[tuple[BlobDigest, ...], Meta(max_length=10_000)]


async def missing(
    services: Services, uid: str, role: str, index: int, attempt: int, data: BlobDigests
) -> BlobsAnswer:
    """Return the requested digests whose blobs the server does not have."""
    _attempt_files(services, uid, role, index, attempt).check()
    lacking = await asyncio.to_thread(services.blobs.missing, data.digests)
    return BlobsAnswer(missing=tuple(lacking))


async def put_checkpoint(
    services: Services, uid: str, role: str, index: int, attempt: int, data: dict[str, Any]
) -> dict[str, int]:
    """Record a checkpoint. All of its blobs must already be stored."""
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    saved = msgspec.convert(data, learned(SavedRecord))
    if saved.name in (".", ".."):
        raise InvalidArgument(f"{saved.name[:200]!r} is not a valid checkpoint name.")
    record = {name: data[name] for name in SavedRecord.__struct_fields__ if name in data}
    number, lacking = await asyncio.to_thread(attempt_files.put_checkpoint, record, services.blobs)
    if lacking:
        raise MissingBlobs(lacking)
    return {"number": number}


async def put_part(
    services: Services, uid: str, role: str, index: int, attempt: int, data: Part
) -> dict[str, bool]:
    """Record the part of a checkpoint that one rank saved.

    All of the part's blobs must already be stored.
    """
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check()
    lacking = await asyncio.to_thread(attempt_files.put_part, data, services.blobs)
    if lacking:
        raise MissingBlobs(lacking)
    return {"taken": True}


async def end(
    services: Services, uid: str, role: str, index: int, attempt: int, data: Ended
) -> dict[str, bool]:
    """Record the end of an attempt. This is the last request that concerns the attempt."""
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    attempt_files.check(may_have_ended=True)
    record = msgspec.to_builtins(data)
    taken_away = record.pop("taken_away", False)
    await asyncio.to_thread(attempt_files.end, record, is_taken_away=taken_away)
    return {"taken": True}


async def orders(
    services: Services, uid: str, role: str, index: int, attempt: int, seen: str = ""
) -> dict[str, Any]:
    """Return the orders for an attempt.

    The response waits until the orders differ from those that the agent last got, whose digest is
    `seen`, or until a timeout.
    """
    attempt_files = _attempt_files(services, uid, role, index, attempt)
    job, _ = await asyncio.to_thread(_load, services, uid)
    news = services.hub.subscribe(job.trial_id)
    loop = asyncio.get_running_loop()
    until = loop.time() + _PATIENCE
    try:
        while True:
            news.clear()
            attempt_files.check(may_have_ended=True)
            current = attempt_files.orders()
            left = until - loop.time()
            if current["seen"] != seen or left <= 0 or services.hub.is_closing:
                return current
            try:
                await asyncio.wait_for(news.wait(), left)
            except asyncio.TimeoutError:
                continue
    finally:
        services.hub.unsubscribe(news, job.trial_id)


async def fetch(
    services: Services, uid: str, role: str, index: int, attempt: int, data: FetchBlobs
) -> Answer:
    """Return a pack of blobs, such as a trial's code and call.

    An agent may fetch any blob whose digest it knows.
    """
    _attempt_files(services, uid, role, index, attempt).check()
    return await fetch_blobs(data, services)


async def fetch_one(
    services: Services, uid: str, role: str, index: int, attempt: int, digest: str
) -> Answer:
    """Return the bytes of a large blob."""
    _attempt_files(services, uid, role, index, attempt).check()
    return await get_blob(services, digest)


async def package(services: Services, uid: str, role: str, index: int, attempt: int) -> Answer:
    """Return a zip file of the `windlass` package that an attempt's program imports."""
    from windlass.runtimes.worker_zip import package_zip

    _attempt_files(services, uid, role, index, attempt).check()
    return Answer(await asyncio.to_thread(package_zip), media_type=OCTETS)


def _attempt_files(
    services: Services, uid: str, role: str, index: int, attempt: int
) -> RemoteAttemptFiles:
    try:
        msgspec.convert([role, index, attempt], learned(tuple[RoleName, Count, Count]))
    except msgspec.ValidationError as error:
        raise NotFound("There is no such attempt.") from error
    job, _ = _load(services, uid)
    replica = ReplicaId(role, index, attempt)
    AGENTS_LAST_SEEN.note(uid, replica)
    return RemoteAttemptFiles(services.home.path, job, replica, services.nudge_path)


def _load(services: Services, uid: str) -> Any:
    loaded = services.trials.load(uid)
    if loaded is None:
        raise NotFound("There is no such trial.")
    return loaded


_ONE = f"{AGENTS}{{uid}}/{{role}}/{{index:int}}/{{attempt:int}}"
routes = [
    Route("POST", f"{_ONE}/begin", begin, largest_body=_LARGEST_LIST),
    Route("POST", f"{_ONE}/ship", ship, largest_body=_LARGEST_SHIPMENT),
    Route("GET", f"{_ONE}/orders", orders),
    Route("GET", f"{_ONE}/room", room),
    Route("PUT", f"{_ONE}/files/{{name}}", put_file, largest_body=None),
    Route("PUT", f"{_ONE}/outputs", put_output, largest_body=None),
    Route("POST", f"{_ONE}/missing", missing, largest_body=_LARGEST_LIST),
    Route("POST", f"{_ONE}/blobs", fetch, media_type=OCTETS, largest_body=_LARGEST_LIST),
    Route("PUT", f"{_ONE}/blobs/{{digest}}", put_blob, largest_body=None),
    Route("GET", f"{_ONE}/blobs/{{digest}}", fetch_one, media_type=OCTETS),
    Route("POST", f"{_ONE}/checkpoints", put_checkpoint),
    Route("POST", f"{_ONE}/parts", put_part),
    Route("POST", f"{_ONE}/end", end),
    Route("GET", f"{_ONE}/package", package, media_type=OCTETS),
]

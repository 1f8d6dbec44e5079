"""Routes for a trial's output files: list them in pages, and download many in one response.

The response to a download contains one part per requested file, in the requested order. A part
starts with one byte: `F` for a file, `G` for a deleted file, `E` for an error. For a file, this
byte is followed by the offset of the first byte (8 bytes), the size (8 bytes) and the modification
time (8 bytes, a float). Then the content follows in pieces. A piece starts with its length (4
bytes), and a piece of length 0 ends the part. For `G` and `E`, the content is a message. Numbers
are big-endian.

If a file shrinks while the server reads it, its part is shorter than the stated size. Clients can
also detect a truncated response.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Annotated

from msgspec import Meta

from windlass.model.errors import InvalidArgument
from windlass.model.outputs import FetchOutputs, OutputPage, WantedOutput
from windlass.model.records import OutputFile, TrialRecord
from windlass.model.requests import API
from windlass.server.db.paging import cursor_bytes, cursor_text, invalid_cursor
from windlass.server.services import Services
from windlass.server.stores.artifacts import ArtifactLocation, ArtifactQuery, ArtifactStore
from windlass.server.web.messages import OCTETS, Answer
from windlass.server.web.query_types import Limit
from windlass.server.web.routing import Route

_PIECE = 1 << 20
_LARGEST_LIST = 8 << 20
_LONGEST_CURSOR = 8192
_HEAD = struct.Struct(">QQd")
_LENGTH = struct.Struct(">I")
_SAME = 0.001  # seconds; times that differ by less count as equal, because floats are not exact


async def list_outputs(
    services: Services,
    trial_id: int,
    pattern: Annotated[str, Meta(max_length=4096)] | None = None,
    role: Annotated[str, Meta(max_length=100)] | None = None,
    index: Annotated[int, Meta(ge=0, le=10_000)] | None = None,
    cursor: Annotated[str, Meta(max_length=_LONGEST_CURSOR)] | None = None,
    limit: Limit = 100,
) -> OutputPage:
    """List the output files of a running or ended trial, sorted by role, index and path."""
    record = await services.trials.record(trial_id)
    _check_role(record, role)
    after = None if cursor is None else _location(cursor)
    items, last = await asyncio.to_thread(
        services.outputs.page, trial_id, ArtifactQuery(role, index, pattern), after, limit
    )
    return OutputPage(items=tuple(items), next=None if last is None else _cursor(last))


async def fetch_outputs(services: Services, trial_id: int, data: FetchOutputs) -> Answer:
    """Return the current content of the requested files in one response."""
    await services.trials.record(trial_id)
    return Answer(_streamed(services.outputs, trial_id, data.files), media_type=OCTETS)


async def _streamed(
    outputs: ArtifactStore, trial_id: int, files: tuple[WantedOutput, ...]
) -> AsyncGenerator[bytes, None]:
    pieces = _pieces(outputs, trial_id, files)
    try:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
    finally:
        pieces.close()


def _pieces(
    outputs: ArtifactStore, trial_id: int, files: tuple[WantedOutput, ...]
) -> Generator[bytes, None, None]:
    """Yield the response to a download of output files, in pieces of similar size.

    A piece holds many small files or a part of a large one.
    """
    buffered: list[bytes] = []
    held = 0
    for wanted in files:
        for part in _parts(outputs, trial_id, wanted):
            buffered.append(part)
            held += len(part)
            if held >= _PIECE:
                yield b"".join(buffered)
                buffered, held = [], 0
    yield b"".join(buffered)


def _parts(outputs: ArtifactStore, trial_id: int, wanted: WantedOutput) -> Iterator[bytes]:
    path = OutputFile(name=wanted.name, raw=wanted.raw).path
    try:
        fd = outputs.open(trial_id, ArtifactLocation((wanted.role, wanted.index), path))
    except OSError as error:
        text = (error.strerror or str(error)).encode()
        is_gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
        yield (b"G" if is_gone else b"E") + _LENGTH.pack(len(text)) + text + _LENGTH.pack(0)
        return
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        is_same = status.st_size == wanted.size and abs(status.st_mtime - wanted.modified) < _SAME
        start = wanted.offset if is_same and wanted.offset <= status.st_size else 0
        file.seek(start)
        yield b"F" + _HEAD.pack(start, status.st_size, status.st_mtime)
        left = status.st_size - start  # send only this many bytes, even if the file grows meanwhile
        try:
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield _LENGTH.pack(len(piece)) + piece
        except OSError:
            pass  # the client will notice that bytes are missing
    yield _LENGTH.pack(0)


def _check_role(record: TrialRecord, role: str | None) -> None:
    roles = {item.name for item in record.spec.roles} | {item.role for item in record.attempts}
    if role is not None and role not in roles:
        raise InvalidArgument(
            f"Trial {record.id} ({record.name}) has no role {role!r}.",
            hint=f"It has: {', '.join(sorted(roles))}.",
        )


def _cursor(location: ArtifactLocation) -> str:
    role, index = location.replica
    text = f"{role}/{index}/".encode() + location.path
    return cursor_text(text)


def _location(cursor: str) -> ArtifactLocation:
    try:
        role, index, path = cursor_bytes(cursor).split(b"/", 2)
        return ArtifactLocation((role.decode("ascii"), int(index)), path)
    except ValueError:
        raise invalid_cursor() from None


_OUTPUTS = f"{API}/trials/{{trial_id:int}}/artifacts"
routes = [
    Route("GET", _OUTPUTS, list_outputs),
    Route(
        "POST",
        f"{_OUTPUTS}/fetch",
        fetch_outputs,
        media_type=OCTETS,
        largest_body=_LARGEST_LIST,
        is_read=True,
    ),
]

"""The files a trial left: listed a page at a time, fetched many at a time.

The answer to a fetch is, for each file that was asked for, in that order: one byte, `F` for a
file, `G` for one that is gone, `E` for an error; of a file where in it the bytes begin (8 bytes),
how large it is (8 bytes) and when it was changed (8 bytes, a float); then pieces, each after its
length (4 bytes), and one of length 0. The pieces of the others are a text. Numbers are big-endian.
So a file that becomes shorter while it is read just ends, and an answer that was cut is told.
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
from windlass.model.wire import API
from windlass.server.http import OCTETS, Answer
from windlass.server.outputs import Asked, OutputStore, Place
from windlass.server.paging import cursor_bytes, cursor_text, not_given_out
from windlass.server.queries import Limit
from windlass.server.routing import Route
from windlass.server.services import Services

_PIECE = 1 << 20
_LARGEST_LIST = 8 << 20
_LONGEST_CURSOR = 8192
_HEAD = struct.Struct(">QQd")
_LENGTH = struct.Struct(">I")
_SAME = 0.001  # seconds between times that are one: they travel as floats


async def list_outputs(
    services: Services,
    trial_id: int,
    pattern: Annotated[str, Meta(max_length=4096)] | None = None,
    role: Annotated[str, Meta(max_length=100)] | None = None,
    index: Annotated[int, Meta(ge=0, le=10_000)] | None = None,
    cursor: Annotated[str, Meta(max_length=_LONGEST_CURSOR)] | None = None,
    limit: Limit = 100,
) -> OutputPage:
    """The files in the output folders of a trial, by role, index and path, also while it runs."""
    record = await services.trials.record(trial_id)
    _check_role(record, role)
    after = None if cursor is None else _place(cursor)
    items, last = await asyncio.to_thread(
        services.outputs.page, trial_id, Asked(role, index, pattern), after, limit
    )
    return OutputPage(items=tuple(items), next=None if last is None else _cursor(last))


async def fetch_outputs(services: Services, trial_id: int, data: FetchOutputs) -> Answer:
    """The files that are asked for, as they are now, in one stream."""
    await services.trials.record(trial_id)
    return Answer(_streamed(services.outputs, trial_id, data.files), media_type=OCTETS)


async def _streamed(
    outputs: OutputStore, trial_id: int, files: tuple[WantedOutput, ...]
) -> AsyncGenerator[bytes, None]:
    pieces = _pieces(outputs, trial_id, files)
    try:
        while piece := await asyncio.to_thread(next, pieces, b""):
            yield piece
    finally:
        pieces.close()


def _pieces(
    outputs: OutputStore, trial_id: int, files: tuple[WantedOutput, ...]
) -> Generator[bytes, None, None]:
    """The answer in pieces of a fair size: many small files, or a part of a large one."""
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


def _parts(outputs: OutputStore, trial_id: int, wanted: WantedOutput) -> Iterator[bytes]:
    path = OutputFile(name=wanted.name, raw=wanted.raw).path
    try:
        fd = outputs.open(trial_id, Place((wanted.role, wanted.index), path))
    except OSError as error:
        text = (error.strerror or str(error)).encode()
        is_gone = isinstance(error, (FileNotFoundError, NotADirectoryError))
        yield (b"G" if is_gone else b"E") + _LENGTH.pack(len(text)) + text + _LENGTH.pack(0)
        return
    with open(fd, "rb", buffering=0) as file:
        found = os.fstat(fd)
        is_same = found.st_size == wanted.size and abs(found.st_mtime - wanted.modified) < _SAME
        start = wanted.offset if is_same and wanted.offset <= found.st_size else 0
        file.seek(start)
        yield b"F" + _HEAD.pack(start, found.st_size, found.st_mtime)
        left = found.st_size - start  # of one that grows, no more than there was
        try:
            while left and (piece := file.read(min(left, _PIECE))):
                left -= len(piece)
                yield _LENGTH.pack(len(piece)) + piece
        except OSError:
            pass  # whoever reads sees that bytes are missing
    yield _LENGTH.pack(0)


def _check_role(record: TrialRecord, role: str | None) -> None:
    known = {each.name for each in record.spec.roles} | {each.role for each in record.attempts}
    if role is not None and role not in known:
        raise InvalidArgument(
            f"Trial {record.id} ({record.name}) has no role {role!r}.",
            hint=f"It has: {', '.join(sorted(known))}.",
        )


def _cursor(place: Place) -> str:
    role, index = place.replica
    text = f"{role}/{index}/".encode() + place.path
    return cursor_text(text)


def _place(cursor: str) -> Place:
    try:
        role, index, path = cursor_bytes(cursor).split(b"/", 2)
        return Place((role.decode("ascii"), int(index)), path)
    except ValueError:
        raise not_given_out() from None


_OUTPUTS = f"{API}/trials/{{trial_id:int}}/artifacts"
routes = [
    Route("GET", _OUTPUTS, list_outputs),
    Route(
        "POST",
        f"{_OUTPUTS}/fetch",
        fetch_outputs,
        media_type=OCTETS,
        largest_body=_LARGEST_LIST,
    ),
]

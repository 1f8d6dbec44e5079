"""The stream of one trial: what is waited for, what it writes, how it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from windlass.model.records import TrialRecord, TrialState
from windlass.model.wire import INLINE_LIMIT, LogPage, StreamEnd
from windlass.server.hub import QUEUE
from windlass.server.records import describe
from windlass.server.services import Services

_PING = 10.0


async def follow(
    services: Services, trial_id: int, *, logs: bool, cursor: str | None
) -> AsyncGenerator[bytes, None]:
    """Server-sent events, until the trial has ended and all it wrote was told."""
    topics = (trial_id, QUEUE)
    news = services.hub.subscribe(*topics)
    told: TrialRecord | None = None
    try:
        while not services.hub.is_closing:
            news.clear()
            record = await describe(services, trial_id)
            if record != told and not record.state.is_final:
                told = record
                yield _event("trial", msgspec.json.encode(record))
            if record.state is not TrialState.QUEUED:
                services.hub.unsubscribe(news, QUEUE)
            if logs:
                async for event in _log_events(services, trial_id, cursor):
                    cursor = event[0]
                    yield event[1]
            if record.state.is_final:
                yield _event("end", msgspec.json.encode(await _end(services, record)))
                return
            while not news.is_set():
                try:
                    await asyncio.wait_for(news.wait(), _PING)
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
    finally:
        services.hub.unsubscribe(news, *topics)


async def _log_events(
    services: Services, trial_id: int, cursor: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    has_more = True
    while has_more:
        page = services.logs.read(trial_id, cursor)
        cursor, has_more = page.cursor, page.has_more
        if page.parts:
            data = msgspec.json.encode(LogPage(items=tuple(page.parts), next=cursor))
            yield cursor, _event("log", data, cursor)
        await asyncio.sleep(0)  # a flood of lines must not hold up everyone else


async def _end(services: Services, record: TrialRecord) -> StreamEnd:
    def small(digest: str | None) -> bytes | None:
        if digest is None or services.blobs.size(digest) > INLINE_LIMIT:
            return None
        return services.blobs.get(digest)

    return StreamEnd(
        trial=record,
        result=small(record.result.digest if record.result else None),
        error=small(record.error.pickle if record.error else None),
    )


def _event(name: str, data: bytes, identity: str = "") -> bytes:
    first = f"id: {identity}\n" if identity else ""
    return f"{first}event: {name}\ndata: ".encode() + data + b"\n\n"

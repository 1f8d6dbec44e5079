"""The stream of one trial: what is waited for, what it writes, how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from windlass.model.job import CleanPolicy
from windlass.model.logs import LogPage
from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import INLINE_LIMIT, StreamEnd
from windlass.model.status import Phase
from windlass.server.operations.describe import describe
from windlass.server.services import Services
from windlass.server.web.messages import PING, event
from windlass.server.web.notifications import QUEUE

_FAREWELL = 2.0  # that the other replicas of a job have to end once it is judged
_FINAL = frozenset(phase.value for phase in Phase if phase.is_final)


async def follow(
    services: Services, trial_id: int, *, logs: bool, cursor: str | None
) -> AsyncGenerator[bytes, None]:
    """Server-sent events, until the trial has ended and all it wrote was told."""
    topics = (trial_id, QUEUE)
    news = services.hub.subscribe(*topics)
    sent: TrialRecord | None = None
    deadline: float | None = None  # for the replicas that are being stopped at the end
    try:
        while not services.hub.is_closing:
            news.clear()
            record = await describe(services, trial_id)
            is_news = record != sent and not record.state.is_final
            # What an attempt wrote comes before the news that another takes its place.
            is_restart = is_news and sent is not None and record.restarts > sent.restarts
            if is_news and not is_restart:
                yield event("trial", msgspec.json.encode(record))
            if record.state is not TrialState.QUEUED:
                services.hub.unsubscribe(news, QUEUE)
            if logs:
                async for page in _log_events(services, trial_id, cursor):
                    cursor = page[0]
                    yield page[1]
            if is_restart:
                yield event("trial", msgspec.json.encode(record))
            sent = record
            left = time_to_end(record) if record.state.is_final else 0.0
            if left > 0:
                deadline = deadline or time.monotonic() + left
                left = min(deadline - time.monotonic(), left)
            if left > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(news.wait(), left)
                continue
            if record.state.is_final:
                yield event("end", msgspec.json.encode(await _end(services, record)))
                return
            while not news.is_set():
                try:
                    await asyncio.wait_for(news.wait(), PING)
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
    finally:
        services.hub.unsubscribe(news, *topics)


def time_to_end(record: TrialRecord) -> float:
    """Seconds that are left for the others of several replicas to end in, once the trial has.

    They are being stopped, and what they write meanwhile is part of it. Of one replica alone,
    and of a trial that ended long ago, nothing is waited for.
    """
    if len(record.attempts) == 1 or record.spec.clean_policy is CleanPolicy.NONE:
        return 0.0
    if all(attempt.phase in _FINAL for attempt in record.attempts):
        return 0.0
    if len({(attempt.role, attempt.index) for attempt in record.attempts}) == 1:
        return 0.0
    return min(_FAREWELL - (time.time() - (record.ended or 0.0)), _FAREWELL)


async def _log_events(
    services: Services, trial_id: int, cursor: str | None
) -> AsyncIterator[tuple[str, bytes]]:
    has_more = True
    while has_more:
        page = services.logs.read(trial_id, cursor)
        cursor, has_more = page.cursor, page.has_more
        if page.parts:
            data = msgspec.json.encode(LogPage(items=tuple(page.parts), next=cursor))
            yield cursor, event("log", data, cursor)
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

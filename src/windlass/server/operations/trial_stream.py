"""A trial's event stream, which contains its states, its log lines and its end."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from windlass.model.errors import NotFound
from windlass.model.job import CleanPolicy
from windlass.model.records import TrialRecord, TrialState
from windlass.model.requests import INLINE_LIMIT, StreamEnd
from windlass.model.status import Phase
from windlass.server.operations.describe import describe
from windlass.server.operations.log_pages import LogQuery, log_page
from windlass.server.operations.shared_log_pages import EncodedPage, encode_event
from windlass.server.services import Services
from windlass.server.stores.logs.base import Page
from windlass.server.stores.logs.cursors import parse_cursor
from windlass.server.web.messages import EVENTS, PING, Answer, event
from windlass.server.web.notifications import QUEUE

_CLOCK = 1.0  # seconds until a line written by a program is in the log
_FAREWELL = 2.0  # seconds that the stream waits after a job's end for its other replicas to stop
_WHOLE_LOG = LogQuery()
_FINAL = frozenset(phase.value for phase in Phase if phase.is_final)


def stream_answer(
    services: Services,
    trial_id: int,
    *,
    logs: bool = True,
    cursor: str | None = None,
    query: LogQuery = _WHOLE_LOG,
    first: Page | None = None,
    waiter: int | None = None,
) -> Answer:
    """Return a response that streams a trial. `first` is the log's first page, if already read.

    `waiter` is the id of the trial whose program sent this request, if that program waits for the
    streamed trial to end.
    """
    parse_cursor(cursor)  # refuse an invalid cursor before the stream begins
    stream = _follow(services, trial_id, logs=logs, cursor=cursor, query=query, first=first)
    if waiter is not None:
        stream = _waited_for(services, waiter, trial_id, stream)
    return Answer(stream, media_type=EVENTS, headers={"Cache-Control": "no-store"})


async def _waited_for(
    services: Services, waiter: int, trial_id: int, stream: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    """Yield a stream's events, and record meanwhile that `waiter` waits for the trial."""
    try:
        waiting: TrialRecord | None = await services.trials.record(waiter)
    except NotFound:
        waiting = None
    awaited = await services.trials.record(trial_id)
    with services.waits.wait(waiting, awaited):
        async with contextlib.aclosing(stream):
            async for message in stream:
                yield message


async def _follow(
    services: Services,
    trial_id: int,
    *,
    logs: bool,
    cursor: str | None,
    query: LogQuery,
    first: Page | None,
) -> AsyncGenerator[bytes, None]:
    """Yield a trial's server-sent events.

    The stream ends when the trial has ended and all log lines that match the query have been sent.
    """
    topics = (trial_id, QUEUE)
    news = services.hub.subscribe(*topics)
    sent: TrialRecord | None = None
    deadline: float | None = None  # when to stop waiting for replicas that stop after the job's end
    until = query.whose.until
    try:
        if (
            first is not None
        ):  # send even an empty page, because its cursor is the next line's position
            cursor = first.cursor
            yield (await asyncio.to_thread(encode_event, first)).event
        while not services.hub.is_closing:
            news.clear()
            record = await describe(services, trial_id)
            left = _time_to_end(record) if record.state.is_final else 0.0
            if left > 0:
                deadline = deadline or time.monotonic() + left
                left = min(deadline - time.monotonic(), left)
            is_over = (record.state.is_final and left <= 0) or _time_left(until) <= 0
            is_news = record != sent and not record.state.is_final
            # Send an attempt's lines before the event that reports its replacement.
            is_restart = is_news and sent is not None and record.restarts > sent.restarts
            if is_news and not is_restart:
                yield event("trial", msgspec.json.encode(record))
            if record.state is not TrialState.QUEUED:
                services.hub.unsubscribe(news, QUEUE)
            if logs:
                async for page in _pages(services, trial_id, cursor, query, is_over=is_over):
                    cursor = page.cursor
                    if page.has_lines or page.has_more:
                        yield page.event
            if is_restart:
                yield event("trial", msgspec.json.encode(record))
            sent = record
            if is_over:
                yield event("end", msgspec.json.encode(await _end(services, record)))
                return
            if left > 0:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(news.wait(), left)
                continue
            while not news.is_set() and (wait := _time_left(until)) > 0:
                try:
                    await asyncio.wait_for(news.wait(), min(wait, PING))
                except asyncio.TimeoutError:
                    yield b": %d\n\n" % int(time.time())
    finally:
        services.hub.unsubscribe(news, *topics)


def _time_left(until: float | None) -> float:
    """Return for how many more seconds a log line written before `until` might still arrive."""
    return math.inf if until is None else until + _CLOCK - time.time()


def _time_to_end(record: TrialRecord) -> float:
    """Return how many more seconds the stream waits for replicas that outlive their trial's end.

    These replicas are being stopped, and their last lines belong to the log. The result is 0 for a
    trial that has one replica and for a trial that ended long ago.
    """
    if len(record.attempts) == 1 or record.spec.clean_policy is CleanPolicy.NONE:
        return 0.0
    if all(attempt.phase in _FINAL for attempt in record.attempts):
        return 0.0
    if len({(attempt.role, attempt.index) for attempt in record.attempts}) == 1:
        return 0.0
    return min(_FAREWELL - (time.time() - (record.ended or 0.0)), _FAREWELL)


async def _pages(
    services: Services, trial_id: int, cursor: str | None, query: LogQuery, *, is_over: bool
) -> AsyncIterator[EncodedPage]:
    has_more = True
    while has_more:
        if query.pattern is None:
            page = await services.log_pages.read(trial_id, cursor, query.stream, query.whose)
        else:
            found = await log_page(services, trial_id, cursor, query, is_followed=not is_over)
            page = await asyncio.to_thread(encode_event, found)
        cursor, has_more = page.cursor, page.has_more
        yield page


async def _end(services: Services, record: TrialRecord) -> StreamEnd:
    def small(digest: str | None) -> bytes | None:
        if digest is None:
            return None
        try:
            if services.blobs.size(digest) > INLINE_LIMIT:
                return None
            return services.blobs.get(digest)
        except FileNotFoundError:
            return None  # the client will request the blob and get the error

    return StreamEnd(
        trial=record,
        result=small(record.result.digest if record.result else None),
        error=small(record.error.pickle if record.error else None),
    )

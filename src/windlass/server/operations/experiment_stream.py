"""An experiment's event stream, which contains the records of the experiment and its trials."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator

import msgspec

from windlass.model.errors import NotFound
from windlass.model.records import TrialRecord
from windlass.server.db.scopes import Scope
from windlass.server.operations.describe import describe, enrich_page
from windlass.server.services import Services
from windlass.server.stores.metrics.base import CurvePositions
from windlass.server.stores.trials.list_query import TrialQuery
from windlass.server.web.messages import PING, event
from windlass.server.web.notifications import experiment_topic

_PAGE = 500
_PACE = 0.1  # the longest pause between rounds of updates; changes during a pause are merged
_REST = 4.0  # each pause is this many times as long as the preceding round


async def follow_experiment(
    services: Services, experiment_id: int, metric: str | None, created_after: float | None
) -> AsyncGenerator[bytes, None]:
    """Yield an experiment's server-sent events while the client reads.

    The stream does not end by itself.
    """
    topic = experiment_topic(experiment_id)
    news = services.hub.subscribe(topic)
    offsets: CurvePositions = {}
    try:
        experiment = await _experiment(services, experiment_id)
        yield experiment
        selection = TrialQuery(
            scope=Scope(experiment_id=experiment_id), created_after=created_after, limit=_PAGE
        )
        async for message in _all_trials(services, selection, metric, offsets):
            yield message
        yield experiment
        while not services.hub.is_closing:
            try:
                await asyncio.wait_for(news.wait(), PING)
            except asyncio.TimeoutError:
                yield b": %d\n\n" % int(time.time())
                continue
            began = time.monotonic()
            changed = news.take()
            # Read the experiment before its trials but send it after them, so that the client has
            # every trial included in the experiment's counts. Only trials that changed after `take`
            # follow in the next round.
            experiment = await _experiment(services, experiment_id)
            for trial_id in changed:
                async for message in _trial(services, trial_id, metric, offsets):
                    yield message
            yield experiment
            await asyncio.sleep(min(_REST * (time.monotonic() - began), _PACE))
    except NotFound:
        return  # the experiment was deleted meanwhile
    finally:
        services.hub.unsubscribe(news, topic)


async def _experiment(services: Services, experiment_id: int) -> bytes:
    record = await services.experiments.by_id(experiment_id)
    return event("experiment", msgspec.json.encode(record))


async def _all_trials(
    services: Services, selection: TrialQuery, metric: str | None, offsets: CurvePositions
) -> AsyncIterator[bytes]:
    cursor: str | None = None
    while True:
        page = await services.trials.page(msgspec.structs.replace(selection, cursor=cursor))
        for record in enrich_page(services, page).items:
            async for message in _points(services, record, metric, offsets):
                yield message
            yield event("trial", msgspec.json.encode(record))
        cursor = page.next
        if cursor is None:
            return


async def _trial(
    services: Services, trial_id: int, metric: str | None, offsets: CurvePositions
) -> AsyncIterator[bytes]:
    record = await describe(services, trial_id)
    if not record.kind.is_listed:
        return
    # Send the points first, so that a client that sees the end of a trial has all its points.
    async for message in _points(services, record, metric, offsets):
        yield message
    yield event("trial", msgspec.json.encode(record))


async def _points(
    services: Services, record: TrialRecord, metric: str | None, offsets: CurvePositions
) -> AsyncIterator[bytes]:
    """Yield events that contain those points of a metric that the client does not have yet."""
    if metric not in record.metrics:
        return
    pieces = services.metrics.new_points(record.id, metric, offsets)
    while (points := await asyncio.to_thread(next, pieces, None)) is not None:
        yield event("points", msgspec.json.encode(points))

"""Metrics: the points that trials reported, as pages of JSON and as packs of curves."""

from __future__ import annotations

import asyncio

from windlass.model.wire import API, FetchMetrics, PointsPage
from windlass.server.api.trials import MaybeText, TrialId
from windlass.server.curves import fetch_curves
from windlass.server.http import OCTETS, Answer
from windlass.server.points import page_of_points
from windlass.server.routing import Route
from windlass.server.services import Services

_LARGEST_QUESTION = 16 << 20  # it says how far each attempt is known


async def read_metrics(
    services: Services, trial_id: TrialId, name: MaybeText = None, cursor: MaybeText = None
) -> PointsPage:
    """What a trial reported, of one metric or of all, a piece at a time."""
    await services.trials.record(trial_id)
    return await asyncio.to_thread(page_of_points, services.home.path, trial_id, name, cursor)


async def fetch_metrics(services: Services, data: FetchMetrics) -> Answer:
    """What trials reported of metrics, as one pack of curves, downsampled if that is asked for."""
    for trial_id in data.trials:
        await services.trials.record(trial_id)  # one that is not there is told
    pack = await asyncio.to_thread(fetch_curves, services.home.path, data)
    return Answer(pack, media_type=OCTETS)


routes = [
    Route("GET", f"{API}/trials/{{trial_id:int}}/metrics", read_metrics),
    Route(
        "POST",
        f"{API}/metrics",
        fetch_metrics,
        media_type=OCTETS,
        largest_body=_LARGEST_QUESTION,
    ),
]

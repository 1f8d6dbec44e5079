"""Metrics: the points that trials reported, as pages of JSON and as packs of curves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.model.metrics import FetchMetrics, PointsPage
from windlass.model.wire import API
from windlass.server.api.trials import TrialId
from windlass.server.curves import fetch_curves
from windlass.server.database import Connection
from windlass.server.http import OCTETS, Answer
from windlass.server.paging import Conditions
from windlass.server.points import page_of_points
from windlass.server.queries import MaybeText
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
    missing = await services.database.aread(lambda each: _first_missing(each, data.trials))
    if missing is not None:
        await services.trials.record(missing)  # which says that it is not there
    pack = await asyncio.to_thread(fetch_curves, services.home.path, data)
    return Answer(pack, media_type=OCTETS)


def _first_missing(connection: Connection, trial_ids: Sequence[int]) -> int | None:
    asked = Conditions()
    asked.one_of("id", [each for each in trial_ids if 0 < each < 2**63] or [-1])
    there = connection.rows(f"SELECT id FROM trials{asked.text}", asked.parameters)
    known = {row["id"] for row in there}
    return next((each for each in trial_ids if each not in known), None)


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

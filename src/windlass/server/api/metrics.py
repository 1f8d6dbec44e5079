"""Metrics: the points that trials reported, as packs of curves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from windlass.model.metrics import FetchMetrics
from windlass.model.requests import API
from windlass.server.db.base import Connection
from windlass.server.db.paging import Conditions
from windlass.server.services import Services
from windlass.server.web.messages import OCTETS, Answer
from windlass.server.web.routing import Route

_LARGEST_QUESTION = 16 << 20  # bytes; the request contains the offset of each attempt


async def fetch_metrics(services: Services, data: FetchMetrics) -> Answer:
    """Return the points of metrics as one pack of curves, downsampled on request."""
    missing = await services.database.aread(
        lambda connection: _first_missing(connection, data.trials)
    )
    if missing is not None:
        await services.trials.record(missing)  # raises NotFound
    pack = await asyncio.to_thread(services.metrics.fetch_curves, data)
    return Answer(pack, media_type=OCTETS)


def _first_missing(connection: Connection, trial_ids: Sequence[int]) -> int | None:
    conditions = Conditions()
    conditions.one_of("id", [trial_id for trial_id in trial_ids if 0 < trial_id < 2**63] or [-1])
    there = connection.rows(f"SELECT id FROM trials{conditions.text}", conditions.parameters)
    existing = {row["id"] for row in there}
    return next((trial_id for trial_id in trial_ids if trial_id not in existing), None)


routes = [
    Route(
        "POST",
        f"{API}/metrics",
        fetch_metrics,
        media_type=OCTETS,
        largest_body=_LARGEST_QUESTION,
    ),
]

"""The route for metrics, which returns points from many trials in one binary response."""

from __future__ import annotations

import asyncio

from windlass.model.metrics import FetchMetrics
from windlass.model.requests import API
from windlass.server.services import Services
from windlass.server.web.messages import OCTETS, Answer
from windlass.server.web.routing import Route

_LARGEST_REQUEST = 16 << 20  # bytes; a request contains an offset per attempt


async def fetch_metrics(services: Services, data: FetchMetrics) -> Answer:
    """Return metric points in one binary response. Each metric of each attempt is a curve.

    The client can limit the number of points per curve.
    """
    await services.trials.check_exist(data.trials)
    pack = await asyncio.to_thread(services.metrics.fetch_curves, data)
    return Answer(pack, media_type=OCTETS)


routes = [
    Route(
        "POST",
        f"{API}/metrics",
        fetch_metrics,
        media_type=OCTETS,
        largest_body=_LARGEST_REQUEST,
        is_read=True,
    ),
]

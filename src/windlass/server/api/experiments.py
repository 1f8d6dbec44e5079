"""Experiments: listed and looked up."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.model.records import ExperimentRecord
from windlass.model.wire import API, ExperimentPage
from windlass.server.paging import PAGE_LIMIT
from windlass.server.routing import Route
from windlass.server.services import Services

Text = Annotated[str, Meta(max_length=1000)]
MaybeText = Text | None


async def list_experiments(
    services: Services,
    project: MaybeText = None,
    name: MaybeText = None,
    sort: Text = "id",
    cursor: MaybeText = None,
    limit: Annotated[int, Meta(ge=1, le=PAGE_LIMIT)] = 100,
) -> ExperimentPage:
    """Experiments that match, sorted, a page at a time."""
    return await services.experiments.page(
        project=project, name=name, sort=sort, cursor=cursor, limit=limit
    )


async def get_experiment(services: Services, name: str) -> ExperimentRecord:
    """One experiment, by name or id."""
    return await services.experiments.record(name)


routes = [
    Route("GET", f"{API}/experiments", list_experiments),
    Route("GET", f"{API}/experiments/{{name:path}}", get_experiment),  # it may hold slashes
]

"""Experiments: listed and looked up."""

from __future__ import annotations

from typing import Annotated

from litestar import Router, get
from litestar.params import Parameter

from windlass.model.records import ExperimentRecord
from windlass.model.wire import ExperimentPage
from windlass.server.api.access import ApiRequest, services_of
from windlass.server.paging import PAGE_LIMIT

Text = Annotated[str, Parameter(max_length=1000)]
MaybeText = Annotated[str | None, Parameter(max_length=1000)]


@get("/")
async def list_experiments(
    request: ApiRequest,
    project: MaybeText = None,
    name: MaybeText = None,
    sort: Text = "id",
    cursor: MaybeText = None,
    limit: Annotated[int, Parameter(ge=1, le=PAGE_LIMIT)] = 100,
) -> ExperimentPage:
    """Experiments that match, sorted, a page at a time."""
    return await services_of(request).experiments.page(
        project=project, name=name, sort=sort, cursor=cursor, limit=limit
    )


@get("/{name:path}")  # a name may hold slashes
async def get_experiment(request: ApiRequest, name: str) -> ExperimentRecord:
    """One experiment, by name or id."""
    return await services_of(request).experiments.record(name.removeprefix("/"))


router = Router(
    "/experiments", route_handlers=[list_experiments, get_experiment], tags=["experiments"]
)

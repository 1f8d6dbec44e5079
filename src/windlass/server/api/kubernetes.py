"""The cluster of the server, which runs the jobs: whether they can run there, and as what."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated

from msgspec import Meta

from windlass.model.check_results import ClusterCheck, ClusterManifests, ShowManifests
from windlass.model.kubernetes.job_options import Namespace
from windlass.model.requests import API
from windlass.server.services import Services
from windlass.server.web.routing import Route

_AT_ONCE = asyncio.Semaphore(2)
_ONE = asyncio.Semaphore(1)  # a login program that hangs has one thread of ours, not all
Seconds = Annotated[float, Meta(gt=0, le=50)]


async def check_cluster(
    services: Services, namespace: Namespace = "", within: Seconds = 50.0
) -> ClusterCheck:
    """What jobs find in the cluster: it is looked at as this process sees it, for some seconds."""
    from windlass.kube.check_cluster import examine  # most servers never have a cluster

    url = services.urls[0] if services.urls else services.url
    look = partial(examine, services.home, namespace=namespace, url=url, within=within)
    async with _AT_ONCE:  # each has a thread for as long as the cluster takes to answer
        return await asyncio.to_thread(look)


async def show_manifests(services: Services, data: ShowManifests) -> ClusterManifests:
    """What would be created in the cluster for a job; nothing is."""
    from windlass.kube.api.connection import connect
    from windlass.runtimes.kubernetes.preview_manifests import manifests_here, preset_image

    reach = partial(connect, None, data.namespace or None, home=services.home)
    async with _ONE:
        return await asyncio.to_thread(manifests_here, data, reach, preset_image())


routes = [
    Route("GET", f"{API}/kubernetes/check", check_cluster),
    Route("POST", f"{API}/kubernetes/manifests", show_manifests),
]

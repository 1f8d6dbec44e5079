"""Routes for Kubernetes: check the server's cluster, and show the manifests of a job."""

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
# A login program (kubectl credential plugin) that hangs blocks only one thread.
_ONE = asyncio.Semaphore(1)
Seconds = Annotated[float, Meta(gt=0, le=50)]


async def check_cluster(
    services: Services, namespace: Namespace = "", within: Seconds = 50.0
) -> ClusterCheck:
    """Check the cluster, using the server's own credentials. This takes a few seconds."""
    from windlass.kube.check_cluster import examine  # loaded only if a cluster is used

    url = services.urls[0] if services.urls else services.url
    check = partial(examine, services.home, namespace=namespace, url=url, within=within)
    async with _AT_ONCE:  # each check occupies a thread until the cluster answers
        return await asyncio.to_thread(check)


async def show_manifests(services: Services, data: ShowManifests) -> ClusterManifests:
    """Return the manifests that a job would create in the cluster, without creating them."""
    from windlass.kube.api.connection import connect
    from windlass.runtimes.kubernetes.objects.preview_manifests import manifests_here, preset_image

    reach = partial(connect, None, data.namespace or None, home=services.home)
    async with _ONE:
        return await asyncio.to_thread(manifests_here, data, reach, preset_image())


routes = [
    Route("GET", f"{API}/kubernetes/check", check_cluster),
    Route("POST", f"{API}/kubernetes/manifests", show_manifests, is_read=True),
]

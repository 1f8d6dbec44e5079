"""Routes for the server itself: health, information and garbage collection."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import socket
from functools import partial

from windlass.model.errors import Conflict
from windlass.model.records import TrialState
from windlass.model.requests import API, Adopted, CollectGarbage, GarbageReport, ServerInfo
from windlass.runtimes.local.installation import describe_installation
from windlass.server.services import Services
from windlass.server.stores.home_identity import make_own
from windlass.server.web.routing import Route
from windlass.version import __version__

_FAREWELL = 0.1  # seconds for sending the response before the server stops


async def health() -> dict[str, str]:
    """Report that the server is up. This endpoint needs no token."""
    return {"status": "ok", "version": __version__}


async def server_info(services: Services) -> ServerInfo:
    """Return information about the server, such as its version, home and free capacity."""
    waiting = (TrialState.QUEUED, TrialState.SUSPENDED)
    active = [state for state in TrialState if not state.is_final and state not in waiting]
    latency = services.controller.latency
    free = services.admission.free()
    return ServerInfo(
        version=__version__,
        pid=os.getpid(),
        home=str(services.home.path),
        started=services.started,
        url=services.url,
        copy_of=services.identity.original or "",
        host=socket.gethostname(),
        python=platform.python_version(),
        trials_running=await services.trials.count(*active),
        trials_queued=await services.trials.count(TrialState.QUEUED),
        capacity=services.capacity,
        cpus_free=free.cpus,
        memory_free=free.memory,
        devices_free=len(free.devices),
        problem=describe_installation(),
        reconciles=latency.count,
        reconcile_p50=latency.quantile(0.5),
        reconcile_p99=latency.quantile(0.99),
    )


async def adopt_copy(services: Services) -> Adopted:
    """Turn a copied home into an independent home and stop the server.

    The home's next server starts the copied trials.
    """
    original = services.identity.original
    if original is None:
        raise Conflict(
            f"{services.home.path} is a home of its own already.",
            hint="This command is for a copy of a home.",
        )
    await asyncio.to_thread(make_own, services.home)
    asyncio.get_running_loop().call_later(_FAREWELL, os.kill, os.getpid(), signal.SIGTERM)
    return Adopted(original=original, unfinished=len(list(services.trials.unfinished())))


async def collect_garbage(services: Services, data: CollectGarbage) -> GarbageReport:
    """Delete data that no record refers to."""
    collect = partial(
        services.garbage.collect, data.older_than, dry_run=data.dry_run, set_aside=data.set_aside
    )
    return await asyncio.to_thread(collect)


routes = [
    Route("GET", f"{API}/health", health),
    Route("GET", f"{API}/server", server_info),
    # Marked as a read, because the server for a copied home refuses all other requests.
    Route("POST", f"{API}/server/adopt", adopt_copy, is_read=True),
    Route("POST", f"{API}/gc", collect_garbage, frees_space=True),
]

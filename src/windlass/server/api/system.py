"""The server itself."""

from __future__ import annotations

import os
import platform
import socket

from litestar import Router, get

from windlass.model.records import TrialState
from windlass.model.wire import ServerInfo
from windlass.server.api.access import ApiRequest, services_of
from windlass.version import __version__


@get("/health")
async def health() -> dict[str, str]:
    """Whether the server is up; open to all."""
    return {"status": "ok", "version": __version__}


@get("/server")
async def server_info(request: ApiRequest) -> ServerInfo:
    """The server: version, home, what the machine has and what of it is free."""
    services = services_of(request)
    active = [s for s in TrialState if not s.is_final and s is not TrialState.QUEUED]
    free = services.admission.free()
    return ServerInfo(
        version=__version__,
        pid=os.getpid(),
        home=str(services.home.path),
        started=services.started,
        url=services.url,
        host=socket.gethostname(),
        python=platform.python_version(),
        trials_running=await services.trials.count(*active),
        trials_queued=await services.trials.count(TrialState.QUEUED),
        capacity=services.capacity,
        cpus_free=free.cpus,
        memory_free=free.memory,
        devices_free=len(free.devices),
    )


router = Router("/", route_handlers=[health, server_info], tags=["server"])

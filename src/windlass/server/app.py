"""The application: routes behind the guard, and an OpenAPI document of them."""

from __future__ import annotations

from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from windlass.model.wire import API
from windlass.server.api import blobs, experiments, system, trials
from windlass.server.document import Document
from windlass.server.faults import answer
from windlass.server.guard import Guard
from windlass.server.services import Services
from windlass.version import __version__


def create_app(services: Services, token: str) -> Any:
    """The ASGI application of a server."""
    api = Router(
        API, route_handlers=[system.router, trials.router, experiments.router, blobs.router]
    )
    app = Litestar(
        route_handlers=[api],
        state=State({"services": services}),
        exception_handlers={Exception: answer},
        openapi_config=OpenAPIConfig(
            title="Windlass",
            version=__version__,
            path=f"{API}/schema",
            render_plugins=[Document()],
            security=[{"token": []}],
            components=Components(
                security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}
            ),
        ),
        logging_config=None,
    )
    return Guard(app, token)

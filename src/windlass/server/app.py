"""The application: routes behind the guard, and an OpenAPI document of them."""

from __future__ import annotations

from typing import Any

from windlass.model.wire import API
from windlass.server.api import (
    agents,
    blobs,
    checkpoints,
    clusters,
    experiments,
    logs,
    metrics,
    outputs,
    places,
    queue,
    registry,
    shells,
    system,
    templates,
    trials,
)
from windlass.server.faults import answer_to
from windlass.server.guard import Guard
from windlass.server.http import Request, send_answer
from windlass.server.listening import LOOPBACK
from windlass.server.routing import Route, Routes
from windlass.server.services import Services
from windlass.version import __version__

_ROOMS = (
    system,
    trials,
    logs,
    metrics,
    outputs,
    queue,
    experiments,
    places,
    checkpoints,
    registry,
    templates,
    shells,
    clusters,
    blobs,
    agents,
)


def create_app(services: Services, token: str, hosts: frozenset[str] = LOOPBACK) -> Any:
    """The ASGI application of a server, which answers to those names."""
    return Guard(_App(services), token, hosts)


class _App:
    """Finds the route of a request and sends its answer, or why there is none."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._described = [route for room in _ROOMS for route in room.routes]
        describing = Route("GET", f"{API}/schema/openapi.json", self._describe_api)
        self._routes = Routes([*self._described, describing])

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            route, blanks = self._routes.find(scope["method"], scope["path"])
            request = Request(scope, receive, route.largest_body)
            query = scope["query_string"].decode("latin-1")
            answer = await route.answer(request, self._services, blanks, query)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the client is told
            answer = answer_to(error, self._services.home.path)
        await send_answer(answer, receive, send)

    async def _describe_api(self) -> dict[str, Any]:
        """The OpenAPI document."""
        from windlass.server.openapi import document_of

        return document_of(
            self._described, title="Windlass", version=__version__, is_open=f"{API}/health"
        )

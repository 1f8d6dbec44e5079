"""The ASGI application, which authenticates and routes requests and documents its routes."""

from __future__ import annotations

import asyncio
from typing import Any

from windlass.model.requests import API
from windlass.server.api import (
    agents,
    artifacts,
    blobs,
    checkpoints,
    experiments,
    kubernetes,
    logs,
    metrics,
    models,
    queue,
    shells,
    system,
    templates,
    trials,
    workspaces,
)
from windlass.server.services import Services
from windlass.server.web.auth import Guard, TokenAuthenticator
from windlass.server.web.base import App, Receive, Scope, Send
from windlass.server.web.error_responses import answer_to
from windlass.server.web.listen_address import LOOPBACK
from windlass.server.web.messages import Request, send_answer
from windlass.server.web.routing import Route, Routes
from windlass.version import __version__

_ROUTE_MODULES = (
    system,
    trials,
    logs,
    metrics,
    artifacts,
    queue,
    experiments,
    workspaces,
    checkpoints,
    models,
    templates,
    shells,
    kubernetes,
    blobs,
    agents,
)


def create_app(services: Services, token: str, hosts: frozenset[str] = LOOPBACK) -> App:
    """Create the ASGI application for a server that accepts requests for the host names `hosts`."""
    return Guard(_App(services), TokenAuthenticator(token), hosts)


class _App:
    """Finds a request's route and sends the route's response or an error response."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._large_sends = asyncio.Lock()
        describing = Route("GET", f"{API}/schema/openapi.json", self._describe_api)
        self._routes = Routes([*_described_routes(), describing])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._services.note_activity()
        try:
            route, blanks = self._routes.find(scope["method"], scope["path"])
            if not route.is_read:
                self._services.refuse_in_copy()
            request = Request(scope, receive, route.largest_body)
            query = scope["query_string"].decode("latin-1")
            answer = await route.answer(request, self._services, blanks, query)
        except Exception as error:  # noqa: BLE001 -- the client gets every error as a response
            answer = answer_to(error, self._services.home.path)
        try:
            await send_answer(answer, receive, send, self._large_sends)
        finally:
            self._services.note_activity()

    async def _describe_api(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return openapi_document()


def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document for all routes.

    The HTTP reference in the docs is also made from it.
    """
    from windlass.server.web.openapi import build_document

    return build_document(
        _described_routes(), title="Windlass", version=__version__, is_open=f"{API}/health"
    )


def _described_routes() -> list[Route]:
    return [route for module in _ROUTE_MODULES for route in module.routes]

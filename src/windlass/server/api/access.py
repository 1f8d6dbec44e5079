"""How a route reaches the parts of the server."""

from __future__ import annotations

from typing import Any

from litestar import Request

from windlass.server.services import Services

ApiRequest = Request[Any, Any, Any]


def services_of(request: ApiRequest) -> Services:
    """The parts of the server that a request came to."""
    services = request.app.state["services"]
    assert isinstance(services, Services)  # noqa: S101 -- put there by create_app
    return services

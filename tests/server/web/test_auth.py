"""The guard decides which requests reach the application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from windlass.model.versions import API_LEVEL
from windlass.server.web.auth import Guard, TokenAuthenticator
from windlass.version import __version__

TOKEN = "right"


def ask(path: str = "/api/v1/trials", kind: str = "http", **headers: str) -> tuple[int, bool, Any]:
    """The status, whether the request reached the application, and the returned error."""
    reached = False
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal reached
        reached = True
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers_of_request = {"host": "127.0.0.1:8000", "authorization": f"Bearer {TOKEN}", **headers}
    pairs = [
        (name.replace("_", "-").encode(), value.encode())
        for name, value in headers_of_request.items()
    ]
    scope = {"type": kind, "path": path, "headers": [pair for pair in pairs if pair[1]]}
    asyncio.run(Guard(app, TokenAuthenticator(TOKEN))(scope, None, send))
    if not sent or "status" not in sent[0]:
        return 0, reached, None
    assert (b"windlass-version", __version__.encode()) in sent[0]["headers"]
    return sent[0]["status"], reached, json.loads(sent[1]["body"])


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"authorization": ""}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer righ"}, 401),
        ({"authorization": "Bearer right "}, 401),
        ({"authorization": "bearer žeton"}, 401),
        ({"host": ""}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": "127.0.0.1@evil.example"}, 403),
        ({"host": "LOCALHOST:1"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "[::1"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1@evil.example"}, 403),
        ({"windlass_version": "9.9.9", "windlass_api_level": str(API_LEVEL)}, 200),
        ({"windlass_version": __version__, "windlass_api_level": str(API_LEVEL + 1)}, 426),
        ({"windlass_version": __version__, "windlass_api_level": "0"}, 426),
        ({"windlass_version": __version__, "windlass_api_level": "x" * 10_000}, 426),
        ({"windlass_version": "x" * 10_000}, 426),
        ({"windlass_api_level": "-1"}, 426),
    ],
)
def test_only_valid_requests_reach_the_application(headers: dict[str, str], status: int) -> None:
    answered, reached, fault = ask(**headers)
    assert answered == status
    assert reached is (status == 200)
    if status != 200:
        assert fault["code"] in ("unauthorized", "version_mismatch")
        assert TOKEN not in json.dumps(fault)
        assert len(json.dumps(fault)) < 1000


def test_health_is_open_but_not_to_other_sites() -> None:
    for path, status in (
        ("/api/v1/health", 200),
        ("/api/v1/health/", 401),
        ("/api/v1//health", 401),
        ("/api/v1/health/../trials", 401),
    ):
        assert ask(path, authorization="")[0] == status, path
    assert ask("/api/v1/health", authorization="", origin="https://evil.example")[0] == 403
    assert ask("/api/v1/health", authorization="", host="evil.example")[0] == 403


def test_an_unknown_protocol_needs_the_token() -> None:
    assert ask(kind="websocket", authorization="")[1] is False
    assert ask(kind="lifespan")[1] is True

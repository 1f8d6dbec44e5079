"""Authentication of requests: token, host, origin and version are checked first."""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import urlsplit

import msgspec

from windlass.model.requests import API, VERSION_HEADER, Fault
from windlass.model.versions import is_same_api
from windlass.server.web.agent_token import AGENTS, agent_token
from windlass.server.web.drain_request import Exchange, has_body
from windlass.server.web.listen_address import LOOPBACK
from windlass.version import __version__

_HEALTH = f"{API}/health"


class Guard:
    """An ASGI application that forwards only permitted requests to another application.

    The `Origin` check refuses pages of other sites in a browser. The `Host` check refuses names
    that an attacker has resolved to this machine. The `Authorization` check refuses requests
    without the token.
    """

    def __init__(self, app: Any, token: str, hosts: frozenset[str] = LOOPBACK) -> None:
        self._app = app
        self._token = token
        self._expected = f"Bearer {token}".encode()
        self._hosts = hosts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})  # the server has no websockets
            return
        headers = dict(scope["headers"])
        if has_body(headers):
            exchange = Exchange(receive, send)
            receive, send = exchange.receive, exchange.send
        refusal = self._refusal(scope["path"], headers)
        if refusal is None:
            await self._app(scope, receive, _with_version(send))
        else:
            status, fault = refusal
            await _answer(send, status, fault)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, Fault] | None:
        host = _host_of(b"//" + headers.get(b"host", b""))
        if host not in self._hosts:
            return 403, Fault(
                code="unauthorized", message=f"This server does not answer to the name {host!r}."
            )
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin) not in self._hosts:
            return 403, Fault(
                code="unauthorized", message="Requests from pages of other sites are not allowed."
            )
        if path == _HEALTH:
            return None
        expected = self._expected_for(path)
        if not hmac.compare_digest(headers.get(b"authorization", b""), expected):
            return 401, Fault(
                code="unauthorized",
                message="The token is missing or wrong.",
                hint="The token of the embedded server is in the file 'token' of its home "
                "directory. For another server, set WINDLASS_TOKEN.",
            )
        return _version_refusal(headers.get(VERSION_HEADER.lower().encode()))

    def _expected_for(self, path: str) -> bytes:
        """Return the token for a path: agent endpoints have the token of their trial."""
        if not path.startswith(AGENTS):
            return self._expected
        uid = path.removeprefix(AGENTS).partition("/")[0]
        return f"Bearer {agent_token(self._token, uid)}".encode()


def _version_refusal(header: bytes | None) -> tuple[int, Fault] | None:
    if header is None:
        return None
    client = header.decode("latin-1")[:40]
    if is_same_api(client, __version__):
        return None
    return 426, Fault(
        code="version_mismatch",
        message=f"The server is Windlass {__version__}, the client {client}.",
        hint="Use the same version on both sides, or restart the server with the client's "
        "version: windlass server stop (running trials continue).",
    )


def _host_of(url: bytes) -> str:
    try:
        return urlsplit(url.decode("latin-1")).hostname or ""
    except ValueError:
        return ""


def _with_version(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            version = (VERSION_HEADER.lower().encode(), __version__.encode())
            message = {**message, "headers": [*message.get("headers", ()), version]}
        await send(message)

    return sending


async def _answer(send: Any, status: int, fault: Fault) -> None:
    body = msgspec.json.encode(fault)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (VERSION_HEADER.lower().encode(), __version__.encode()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

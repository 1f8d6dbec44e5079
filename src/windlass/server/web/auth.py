"""Authentication of requests: token, host, origin and version are checked first."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

import msgspec

from windlass.model.requests import API, VERSION_HEADER, Fault
from windlass.model.versions import is_same_api
from windlass.server.web.agent_token import AGENTS, agent_token
from windlass.server.web.base import (
    ON_AUTHENTICATED,
    App,
    Authenticator,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
)
from windlass.server.web.drain_request import Exchange, has_body
from windlass.server.web.listen_address import LOOPBACK
from windlass.server.web.messages import Answer, Refused, send_answer
from windlass.version import __version__

_HEALTH = f"{API}/health"


class TokenAuthenticator:
    """Accepts requests with the token of the server, and agents with the token of their trial."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._expected = f"Bearer {token}".encode()

    def check(self, path: str, headers: Headers, /) -> None:
        """Raise `Refused` unless the request has the token for its path."""
        expected = self._expected_for(path)
        if hmac.compare_digest(headers.get(b"authorization", b""), expected):
            return
        fault = Fault(
            code="unauthorized",
            message="The token is missing or wrong.",
            hint="The token of the embedded server is in the file 'token' of its home "
            "directory. For another server, set WINDLASS_TOKEN.",
        )
        raise Refused(401, fault)

    def _expected_for(self, path: str) -> bytes:
        """Return the token for a path: agent endpoints have the token of their trial."""
        if not path.startswith(AGENTS):
            return self._expected
        uid = path.removeprefix(AGENTS).partition("/")[0]
        return f"Bearer {agent_token(self._token, uid)}".encode()


class Guard:
    """An ASGI application that forwards only permitted requests to another application.

    The `Origin` check refuses pages of other sites in a browser. The `Host` check refuses names
    that an attacker has resolved to this machine. The authenticator refuses requests without
    valid credentials.
    """

    def __init__(
        self, app: App, authenticator: Authenticator, hosts: frozenset[str] = LOOPBACK
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        send = _with_version(send)
        try:
            self._check(scope, headers)
        except Refused as error:
            answer = Answer(msgspec.json.encode(error.fault), error.status)
            await send_answer(answer, receive, send)
        else:
            await self._app(scope, receive, send)

    def _check(self, scope: Scope, headers: Headers) -> None:
        host = _host_of(b"//" + headers.get(b"host", b""))
        if host not in self._hosts:
            raise _forbidden(f"This server does not answer to the name {host!r}.")
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin) not in self._hosts:
            raise _forbidden("Requests from pages of other sites are not allowed.")
        if scope["path"] != _HEALTH:
            self._authenticator.check(scope["path"], headers)
            if on_authenticated := scope.get("state", {}).get(ON_AUTHENTICATED):
                on_authenticated()
            _check_version(headers.get(VERSION_HEADER.lower().encode()))


def _forbidden(message: str) -> Refused:
    return Refused(403, Fault(code="unauthorized", message=message))


def _check_version(header: bytes | None) -> None:
    if header is None:
        return
    client = header.decode("latin-1")[:40]
    if is_same_api(client, __version__):
        return
    fault = Fault(
        code="version_mismatch",
        message=f"The server is Windlass {__version__}, the client {client}.",
        hint="Use the same version on both sides, or restart the server with the client's "
        "version: windlass server stop (running trials continue).",
    )
    raise Refused(426, fault)


def _host_of(url: bytes) -> str:
    try:
        return urlsplit(url.decode("latin-1")).hostname or ""
    except ValueError:
        return ""


def _with_version(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            version = (VERSION_HEADER.lower().encode(), __version__.encode())
            message = {**message, "headers": [*message.get("headers", ()), version]}
        await send(message)

    return sending

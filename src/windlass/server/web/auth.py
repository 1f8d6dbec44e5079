"""Authenticates requests: checks host, origin, token and version before anything else."""

from __future__ import annotations

import hmac
from urllib.parse import urlsplit

import msgspec

from windlass.model.requests import (
    API,
    API_LEVEL_HEADER,
    CHALLENGE_HEADER,
    PROOF_HEADER,
    VERSION_HEADER,
    Fault,
)
from windlass.model.server_proof import prove
from windlass.model.versions import API_LEVEL, is_accepted, mismatch, read_level
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
_VERSION, _LEVEL, _CHALLENGE, _PROOF = (
    name.lower().encode()
    for name in (VERSION_HEADER, API_LEVEL_HEADER, CHALLENGE_HEADER, PROOF_HEADER)
)
_OWN_HEADERS = ((_VERSION, __version__.encode()), (_LEVEL, str(API_LEVEL).encode()))
_LONGEST_CHALLENGE = 100


class TokenAuthenticator:
    """Accepts requests that contain the server's token. Agents need their trial's token instead."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._expected = f"Bearer {token}".encode()

    def check(self, path: str, headers: Headers, /) -> None:
        """Raise `Refused` unless the request contains the token that its path requires."""
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

    def prove(self, challenge: str, /) -> str:
        """Return the proof that this server knows its token."""
        return prove(self._token, challenge)

    def _expected_for(self, path: str) -> bytes:
        """Return the expected value of the `Authorization` header.

        Agent endpoints need their trial's token.
        """
        if not path.startswith(AGENTS):
            return self._expected
        uid = path.removeprefix(AGENTS).partition("/")[0]
        return f"Bearer {agent_token(self._token, uid)}".encode()


class Guard:
    """An ASGI application that forwards only permitted requests to the ASGI application `app`.

    The `Origin` check refuses browser requests from other sites' pages. The `Host` check refuses
    host names that an attacker has pointed at this machine. The authenticator refuses requests that
    have no valid credentials.
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
        send = _with_headers(send, self._own_headers(scope["path"], headers))
        try:
            self._check(scope, headers)
        except Refused as error:
            answer = Answer(msgspec.json.encode(error.fault), error.status)
            await send_answer(answer, receive, send)
        else:
            await self._app(scope, receive, send)

    def _own_headers(self, path: str, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Return the headers that every response gets.

        If the client asks for it, they include a proof that the server knows its token.
        """
        own = [*_OWN_HEADERS]
        challenge = headers.get(_CHALLENGE)
        if challenge is not None and path == _HEALTH and len(challenge) <= _LONGEST_CHALLENGE:
            proof = self._authenticator.prove(challenge.decode("latin-1"))
            own.append((_PROOF, proof.encode()))
        return own

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
            _check_level(headers)


def _forbidden(message: str) -> Refused:
    return Refused(403, Fault(code="unauthorized", message=message))


def _check_level(headers: Headers) -> None:
    """Refuse a client whose API level is incompatible.

    A client that states no level, such as curl, is accepted.
    """
    header = headers.get(_LEVEL)
    version = headers.get(_VERSION, b"").decode("latin-1")[:40]
    if header is None and not version:
        return
    level = read_level((header or b"").decode("latin-1"))
    if level is not None and is_accepted(level, API_LEVEL):
        return
    if level is not None and level > API_LEVEL:
        hint = (
            f"Install Windlass {version} for the server, or an older version for the client. "
            "A server on this machine: windlass server stop (running trials continue), then try "
            "again."
        )
    else:
        hint = f"Install Windlass {__version__} for the client."
    message = mismatch(version, level, __version__, API_LEVEL)
    raise Refused(426, Fault(code="version_mismatch", message=message, hint=hint))


def _host_of(url: bytes) -> str:
    try:
        return urlsplit(url.decode("latin-1")).hostname or ""
    except ValueError:
        return ""


def _with_headers(send: Send, own: list[tuple[bytes, bytes]]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        await send(message)

    return sending

"""The protocols of the HTTP layer: an application, and the authentication of its requests.

An application is an ASGI application. `app.py` is the one of the API, and `Guard` calls it for
permitted requests only. Credentials other than the server's token need another `Authenticator`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

Scope = Mapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Mapping[bytes, bytes]  # names in lower case
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The key, in the state of a scope, of a function to call once a request is authenticated.
ON_AUTHENTICATED = "windlass.on_authenticated"


class Authenticator(Protocol):
    """Decides which requests may pass, by their credentials."""

    def check(self, path: str, headers: Headers, /) -> None:
        """Raise `Refused` unless the request has the credentials that its path needs."""

    def prove(self, challenge: str, /) -> str:
        """Return the proof that this server knows its token, for a client that checks it first."""

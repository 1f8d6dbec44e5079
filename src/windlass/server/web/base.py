"""The protocols of the HTTP layer, for ASGI applications and request authentication.

`app.py` contains the API's ASGI application, to which `Guard` forwards only permitted requests. To
support other credentials than the server's token, implement a new `Authenticator`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

Scope = Mapping[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Mapping[bytes, bytes]  # header names in lower case
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# The key in `scope["state"]` of a function to call once the request is authenticated.
ON_AUTHENTICATED = "windlass.on_authenticated"


class Authenticator(Protocol):
    """Decides which requests can pass, based on their credentials."""

    def check(self, path: str, headers: Headers, /) -> None:
        """Raise `Refused` unless the request contains the credentials that its path requires."""

    def prove(self, challenge: str, /) -> str:
        """Return a proof that this server knows its token, for clients that check the server."""

"""The protocols of the HTTP layer: ASGI applications, and the authentication of requests.

`app.py` has the ASGI application of the API, and `Guard` forwards only permitted requests to it.
Credentials other than the server's token would need another `Authenticator`.
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

# A key in `scope["state"]`. Its value is a function to call once the request is authenticated.
ON_AUTHENTICATED = "windlass.on_authenticated"


class Authenticator(Protocol):
    """Decides by their credentials which requests may pass."""

    def check(self, path: str, headers: Headers, /) -> None:
        """Raise `Refused` unless the request has the credentials that its path requires."""

    def prove(self, challenge: str, /) -> str:
        """Return a proof that this server knows its token, for clients that check the server."""

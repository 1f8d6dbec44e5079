"""Connections without TLS, which open only after the server has proved that it knows the token.

Once a server has stopped, another program can listen at its address. The client therefore does not
send the token until the server has proved that it knows the token. This does not stop a program
between client and server from forwarding the proof. Only TLS prevents that attack.
"""

from __future__ import annotations

import hmac
import http.client
import os

from windlass.client.connection.http import Connection
from windlass.model.errors import ServerError, Unauthorized
from windlass.model.requests import API, CHALLENGE_HEADER, PROOF_HEADER, VERSION_HEADER
from windlass.model.server_proof import prove

_LARGEST = 64 << 10  # bytes; a longer response is not from Windlass


class ProvenConnection(Connection):
    """A connection that opens only if the server proves that it knows the token."""

    def __init__(self, host: str, port: int | None, token: str, *, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._token = token

    def connect(self) -> None:
        """Connect and check the server's proof that it knows the token."""
        super().connect()
        try:
            self._check_proof()
        except BaseException:
            self.close()
            raise

    def _check_proof(self) -> None:
        challenge = os.urandom(16).hex()
        health = http.client.HTTPConnection(self.host, self.port)
        health.sock = self.sock
        health.request("GET", f"{API}/health", headers={CHALLENGE_HEADER: challenge})
        response = health.getresponse()
        data = response.read(_LARGEST)
        is_ours = response.status == 200 and VERSION_HEADER in response.headers
        if not is_ours or len(data) == _LARGEST or response.will_close:
            raise ServerError(
                f"The server answered {response.status} with data that is not from Windlass.",
                hint="Check WINDLASS_SERVER: another program may listen at this address.",
            )
        proof = response.headers.get(PROOF_HEADER, "").encode("latin-1", "replace")
        if not hmac.compare_digest(proof, prove(self._token, challenge).encode()):
            raise Unauthorized(
                f"The server at {self.host}:{self.port} does not know this token, so the token was "
                "not sent.",
                hint="Set WINDLASS_TOKEN to the token of that server: the content of the file "
                "'token' of its home.\nIf the token is right, another program listens at this "
                "address: check WINDLASS_SERVER.",
            )

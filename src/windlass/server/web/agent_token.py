"""Tokens of agents. A token gives access only to the agent endpoints of one trial."""

from __future__ import annotations

import hashlib
import hmac

from windlass.model.requests import API

AGENTS = f"{API}/agents/"  # path prefix of agent endpoints; the uid of the trial follows


def agent_token(secret: str, uid: str) -> str:
    """Return the token for the agents of one trial, derived from the server's token.

    >>> agent_token("hush", "c0ffee") == agent_token("hush", "decade")
    False
    """
    return hmac.new(secret.encode(), f"agent:{uid}".encode(), hashlib.sha256).hexdigest()

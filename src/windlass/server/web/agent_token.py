"""Tokens for agents. Such a token gives access only to one trial's agent endpoints."""

from __future__ import annotations

import hashlib
import hmac

from windlass.model.requests import API

AGENTS = f"{API}/agents/"  # path prefix of agent endpoints; the trial's uid follows


def agent_token(secret: str, uid: str) -> str:
    """Return the token for one trial's agents, derived from the server's token `secret`.

    >>> agent_token("hush", "c0ffee") == agent_token("hush", "decade")
    False
    """
    return hmac.new(secret.encode(), f"agent:{uid}".encode(), hashlib.sha256).hexdigest()

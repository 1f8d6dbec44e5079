"""Tokens of agents: each token gives access to the agent endpoints of one trial only."""

from __future__ import annotations

import hashlib
import hmac

from windlass.model.requests import API

AGENTS = f"{API}/agents/"  # followed by the uid of the trial


def agent_token(secret: str, uid: str) -> str:
    """Return the token for the agents of one trial.

    >>> agent_token("hush", "c0ffee") == agent_token("hush", "decade")
    False
    """
    return hmac.new(secret.encode(), f"agent:{uid}".encode(), hashlib.sha256).hexdigest()

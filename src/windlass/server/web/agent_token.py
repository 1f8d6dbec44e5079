"""Tokens of agents: each opens the endpoints of one trial's agents, and nothing else."""

from __future__ import annotations

import hashlib
import hmac

from windlass.model.requests import API

AGENTS = f"{API}/agents/"  # the trial's uid follows


def agent_token(secret: str, uid: str) -> str:
    """The token of the agents of one trial.

    >>> agent_token("hush", "c0ffee") == agent_token("hush", "decade")
    False
    """
    return hmac.new(secret.encode(), f"agent:{uid}".encode(), hashlib.sha256).hexdigest()

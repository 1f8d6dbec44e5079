"""Jobs that no client of ours would send: each is refused, or runs and ends."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec
import pytest

import windlass as wl
from windlass.model.errors import WindlassError
from windlass.model.records import TrialRecord

DIGEST = "0" * 64


def ask_for(trial: dict[str, Any]) -> wl.Trial[Any]:
    """Send a request as it is, whatever our structs would say of it."""
    transport = wl.Client().transport
    connection, answer = transport._send(
        "POST", "/trials", msgspec.json.encode(trial), None, {"Content-Type": "application/json"}
    )
    return connection, answer

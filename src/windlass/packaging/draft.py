"""The draft of a trial: the request, and the code and blobs that the server may lack."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.model.job import ProcessCall, ShellCall
from windlass.model.requests import CreateTrial
from windlass.packaging.large_values import PackedCall
from windlass.packaging.snapshot import Snapshot

SHORTEST_SECRET = 4  # shorter texts occur everywhere, and are not masked


class Call(msgspec.Struct, frozen=True):
    """A function and its arguments, before pickling."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


Program = Call | ProcessCall | ShellCall


@dataclass
class Draft:
    """A trial that is ready to be submitted."""

    request: CreateTrial
    snapshot: Snapshot | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, tuple[str, ...]] = field(default_factory=dict)  # large values, by payload
    retake: Callable[[], Snapshot] | None = None
    programs: Sequence[Program] = ()  # the programs of its roles, before packaging

    def attach(self, data: bytes) -> str:
        """Add a blob and return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def attach_call(self, call: PackedCall) -> str:
        """Add a call with its large values and return the digest of the payload."""
        digest = self.attach(call.payload)
        if call.large:
            self.blobs.update(call.large)
            self.large[digest] = tuple(call.large)
        return digest


def mask(value: Any, secrets: Iterable[str]) -> Any:
    """Replace the secrets in all texts of a value, the longest first, so that it can be shown."""
    hidden = sorted(
        (secret for secret in secrets if len(secret) >= SHORTEST_SECRET), key=len, reverse=True
    )

    def masked(value: Any) -> Any:
        if isinstance(value, str):
            for secret in hidden:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, dict):
            return {masked(key): masked(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(masked(item) for item in value)
        return value

    return masked(value) if hidden else value

"""Drafts: requests for new trials, together with the files to upload first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from windlass.model.job import ProcessCall, ShellCall
from windlass.model.requests import CreateTrial
from windlass.packaging.function_sources import FunctionSource
from windlass.packaging.large_values import PackedCall
from windlass.packaging.snapshot import Snapshot

SHORTEST_SECRET = 4  # shorter secrets are not masked, because they would match everywhere


class Call(msgspec.Struct, frozen=True):
    """A function and its arguments, before pickling."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


Program = Call | ProcessCall | ShellCall


@dataclass
class Draft:
    """The request for a new trial, with the snapshot and blobs to upload before it."""

    request: CreateTrial
    snapshot: Snapshot | None = None
    blobs: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, tuple[str, ...]] = field(default_factory=dict)  # large digests, by payload
    retake: Callable[[], Snapshot] | None = None
    programs: Sequence[Program] = ()  # the roles' unpackaged programs, in order
    sources: list[FunctionSource] = field(default_factory=list)  # functions without a file

    def attach(self, data: bytes) -> str:
        """Add data as a blob to upload before the request, and return the blob's digest."""
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest

    def attach_call(self, call: PackedCall) -> str:
        """Add a pickled call and its large values as blobs to upload.

        Return the payload's digest.
        """
        digest = self.attach(call.payload)
        if call.large:
            self.blobs.update(call.large)
            self.large[digest] = tuple(call.large)
        return digest


def mask(value: Any, secrets: Iterable[str]) -> Any:
    """Replace every secret in a value with `***`, so that the value can be recorded.

    Longer secrets are replaced first, because they can contain shorter ones.
    """
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


def mask_sources(
    sources: Iterable[FunctionSource], secrets: Iterable[str]
) -> tuple[FunctionSource, ...]:
    """Replace every secret in recorded sources with `***`."""
    hidden = tuple(secrets)
    return tuple(
        msgspec.structs.replace(
            source, text=mask(source.text, hidden), block=mask(source.block, hidden)
        )
        for source in sources
    )

"""A trial's output files, in requests and responses."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.job import RoleName
from windlass.model.records import OutputFile


class OutputPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a trial's output files, with the cursor for the next page."""

    items: tuple[OutputFile, ...]
    next: str | None = None


# The maximum number of output files per request.
MOST_OUTPUTS = 500


class WantedOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output file to download: its version in the file list, and the offset to start from."""

    name: Annotated[str, msgspec.Meta(max_length=20_000)]
    raw: Annotated[str, msgspec.Meta(max_length=10_000, pattern=r"^([0-9a-f]{2})*\Z")] = ""
    role: RoleName = "main"
    index: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    size: int = 0  # the size in the file list
    modified: float = 0.0


class FetchOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """Request output files as one stream, whose format `server/api/artifacts.py` describes."""

    files: Annotated[tuple[WantedOutput, ...], msgspec.Meta(min_length=1, max_length=MOST_OUTPUTS)]

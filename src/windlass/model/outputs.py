"""Files that a trial left, as they are listed and asked for."""

from __future__ import annotations

from typing import Annotated

import msgspec

from windlass.model.job import RoleName
from windlass.model.records import OutputFile


class OutputPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some of the files that a trial left, and where the next ones begin."""

    items: tuple[OutputFile, ...]
    next: str | None = None


# Files of a trial that are asked for at once.
MOST_OUTPUTS = 500


class WantedOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file to be fetched: from where on, if it is still the one that was listed."""

    name: Annotated[str, msgspec.Meta(max_length=20_000)]
    raw: Annotated[str, msgspec.Meta(max_length=10_000, pattern=r"^([0-9a-f]{2})*\Z")] = ""
    role: RoleName = "main"
    index: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    offset: Annotated[int, msgspec.Meta(ge=0, le=2**62)] = 0
    size: int = 0  # as it was listed
    modified: float = 0.0


class FetchOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for files of a trial, to be answered in one stream: see `server/api/artifacts.py`."""

    files: Annotated[tuple[WantedOutput, ...], msgspec.Meta(min_length=1, max_length=MOST_OUTPUTS)]

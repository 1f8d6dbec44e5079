"""Defines `StoredFile` and `OutputFile`, which describe files of experiments and trials."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from windlass.model.text.times import to_datetime

if TYPE_CHECKING:
    from windlass.model import records


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file stored with an experiment. `digest` is the SHA-256 of its content."""

    name: str
    digest: str
    size: int
    created: datetime


class OutputFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that one of a trial's replicas left in its output folder.

    `name` is the path below the output folder, with escapes for bytes that are not UTF-8. `raw` is
    the path as hexadecimal bytes, and is set only if the path is not UTF-8. `problem` states why
    the file cannot be downloaded, if the server knows a reason.
    """

    name: str
    role: str
    index: int
    size: int
    modified: datetime
    problem: str
    raw: str

    @property
    def path(self) -> bytes:
        """The path in the file system, as bytes."""
        return bytes.fromhex(self.raw) if self.raw else self.name.encode()


def stored_file(record: records.Artifact) -> StoredFile:
    """Convert the record of an experiment's file to a `StoredFile`."""
    return StoredFile(**{**msgspec.structs.asdict(record), "created": to_datetime(record.created)})


def output_file(record: records.OutputFile) -> OutputFile:
    """Convert the record of a trial's output file to an `OutputFile`."""
    return OutputFile(
        **{**msgspec.structs.asdict(record), "modified": to_datetime(record.modified)}
    )

"""Lists the files in checkpoints and writes them to a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from windlass.client.connection.transport import Transport
from windlass.client.resources.download import fetch_tree, named_folder, write_trees
from windlass.model.records import CheckpointRecord


class File(NamedTuple):
    """A file in a checkpoint, with its path and its size in bytes."""

    path: str
    size: int


def fetch_files(transport: Transport, record: CheckpointRecord) -> list[File]:
    """Return a checkpoint's files, sorted by path."""
    tree = fetch_tree(transport, record.manifest, "checkpoint")
    return sorted(
        File(os.fsdecode(b"/".join(filter(None, (folder, entry.name)))), entry.size)
        for folder, entries in tree.folders.items()
        for entry in entries
    )


def download_checkpoint(
    transport: Transport, record: CheckpointRecord, folder: str | os.PathLike[str]
) -> Path:
    """Write a checkpoint's files to a folder.

    Return the path of the written file or folder.
    """
    root = named_folder(folder, 'checkpoint.download("model")')
    tree = fetch_tree(transport, record.manifest, "checkpoint")
    write_trees(transport, root, {b"": tree}, "checkpoint")
    return root if record.is_folder else root / record.name

"""Checkpoints of earlier versions, `<number>/` with a copy in it: made into what they are now."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from windlass.server.blobs import BlobStore
from windlass.worker import legacy
from windlass.worker.files import write_json
from windlass.worker.gathering import Found, gather
from windlass.worker.keeping import remove_tree
from windlass.worker.manifests import encode

_DONE = ".upgraded"  # among the trials: none of those that had ended has such folders any more
_log = logging.getLogger("windlass")


def upgrade(folder: Path, blobs: BlobStore) -> None:
    """Put what the old checkpoints of a trial hold into the store, each with a record.

    Nothing of the trial runs any more. Files are moved by a link, and the folder goes last:
    whoever is killed in between finds all of it again.
    """
    for number in sorted(_numbers(folder)):
        try:
            _upgrade(folder, number, blobs)
        except (OSError, ValueError, RuntimeError) as error:
            _log.warning("checkpoint %s in %s stays as it is: %s", number, folder, error)


def old_ones(trials: Path, besides: Collection[int]) -> Iterator[int]:
    """The trials that have old checkpoints, but for some; told once in the life of a home."""
    done = trials / _DONE
    if done.exists():
        return
    trials.mkdir(mode=0o700, parents=True, exist_ok=True)
    names = [name for name in os.listdir(trials) if name.isascii() and name.isdecimal()]
    for trial_id in sorted(map(int, names)):  # so that the newest have the highest ids, as ever
        if trial_id not in besides and _numbers(trials / str(trial_id) / "checkpoints"):
            yield trial_id
    done.touch(mode=0o600)


def _upgrade(folder: Path, number: int, blobs: BlobStore) -> None:
    record = legacy.read_record(str(folder), number)
    if record is None:
        return  # somebody spoilt it: not ours to remove
    target = folder / f"{number}.json"
    if not target.exists():
        path = str(record.pop("path"))
        entries = [_entry(each, blobs) for each in gather(path)]
        manifest = blobs.put(encode(entries))
        now = {**_facts(record), "manifest": manifest, "is_folder": os.path.isdir(path)}
        write_json(str(target), now, durable=True)
    remove_tree(str(folder / str(number)))


def _entry(found: Found, blobs: BlobStore) -> tuple[str, str, str, int]:
    if found.is_folder:
        return (found.place, "d", "", 0)
    digest, size = blobs.take(Path(found.path))
    return (found.place, found.mode, digest, size)


def _facts(record: dict[str, Any]) -> dict[str, Any]:
    known = ("name", "time", "step", "role", "index", "attempt")
    return {"uid": os.urandom(16).hex(), **{name: record[name] for name in known if name in record}}


def _numbers(folder: Path) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [
        int(name)
        for name in names
        if name.isascii() and name.isdecimal() and len(name) < 10 and (folder / name).is_dir()
    ]

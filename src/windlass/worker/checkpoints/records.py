"""Checkpoint records, through which a trial's processes save and find its checkpoints.

A checkpoint's files and its manifest are blobs. The record `<number>.json` is written last, in one
atomic step, and completes the checkpoint. The highest number is the newest checkpoint. In a trial
that continues another trial, number 0 is the checkpoint that it started from. All of a trial's
replicas and attempts share its checkpoints, which stay after the trial has ended.
"""

from __future__ import annotations

import json
import os
import time
from _thread import get_ident
from collections import deque
from contextlib import contextmanager

from windlass.worker.blobs.digest import is_digest
from windlass.worker.blobs.manifest import decode, encode
from windlass.worker.blobs.verified_reads import LARGEST_MANIFEST, read_blob
from windlass.worker.common.atomic_files import make_folder, remove_if_there
from windlass.worker.common.errors import invalid
from windlass.worker.common.file_reads import list_folder, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from windlass.worker.blobs.bundle_small_files import PreviousCheckpoint
    from windlass.worker.blobs.manifest import Entry
    from windlass.worker.blobs.scan_files import ScannedFile
    from windlass.worker.blobs.writer import BlobWriter

_AT_A_TIME = 8  # files to copy or hash in parallel


class Saver:
    """The attempt that saves a checkpoint.

    It determines the names of temporary files.
    """

    def __init__(self, folder: str, role: str, index: int, attempt: int) -> None:
        self.folder = folder
        self.role = role
        self.index = index
        self.attempt = attempt

    @property
    def blobs(self) -> str:
        """The path of the blob store."""
        return os.path.join(_up(self.folder, 3), "blobs")

    @property
    def replica(self) -> str:
        """The replica's name, which is unique among all trials."""
        return f"{os.path.basename(_up(self.folder, 1))}.{self.role}.{self.index}."

    @property
    def attempt_dir(self) -> str:
        """The attempt's directory."""
        replica = f"{self.role}-{self.index}"
        return os.path.join(os.path.dirname(self.folder), replica, str(self.attempt))

    def facts(self) -> dict[str, Any]:
        return {"role": self.role, "index": self.index, "attempt": self.attempt}


def save(
    saver: Saver,
    path: str,
    step: int | None,
    metadata: Mapping[str, Any],
    reported_step: int | None = None,
) -> str:
    """Save a file or folder atomically as the newest checkpoint. Return the checkpoint's uid.

    `reported_step` is the highest step that the program has reported.
    """
    from windlass.worker.blobs.writer import BlobWriter, held
    from windlass.worker.blobs.written_files import note_saved

    uid = os.urandom(16).hex()
    with held(saver.blobs), BlobWriter(saver.blobs, begin(saver)) as keeper:
        entries, statuses = keep_all(keeper, saver, path)
        record = {
            "uid": uid,
            "name": name_of(path),
            "is_folder": os.path.isdir(path),
            "step": step,
            "metadata": dict(metadata),
            **saver.facts(),
        }
        if reported_step is not None:
            record["reported_step"] = reported_step
        put(keeper, saver.folder, record, entries)
    note_saved(saver.attempt_dir, statuses)  # the files now exist twice
    return uid


def begin(saver: Saver) -> str:
    """Create the checkpoint folder and return a name for this save.

    Files left behind by killed attempts of this replica are deleted.
    """
    from windlass.worker.blobs.writer import STAGING, remove_tree

    make_folder(saver.folder, 0o700)
    make_folder(saver.blobs, 0o700)
    mine = f"{saver.replica}{saver.attempt}."
    for name in os.listdir(saver.blobs):
        # Two attempts of a replica never run at the same time, so another attempt's files are
        # unused.
        if name.startswith(STAGING + saver.replica) and not name.startswith(STAGING + mine):
            remove_tree(os.path.join(saver.blobs, name))
    return f"{mine}{os.getpid()}-{get_ident()}"


def keep_all(
    keeper: BlobWriter, saver: Saver, path: str
) -> tuple[list[Entry], list[os.stat_result]]:
    """Store all files below a path.

    Return their manifest entries, sorted by path, and the status of each file.
    """
    from windlass.worker.blobs.bundle_small_files import SMALL, keep_small
    from windlass.worker.blobs.scan_files import (
        changed_while_saved,
        gather,
        is_as_it_was,
        wait_for_the_clock,
    )

    files = gather(path, saver.folder)
    wait_for_the_clock(files)
    before = _newest(saver)
    small = [file for file in files if not file.is_folder and file.seen.st_size <= SMALL]
    others = [file for file in files if file.is_folder or file.seen.st_size > SMALL]
    try:
        entries = keep_small(keeper, small, before)
        entries += _keep_others(keeper, others, before)
    except FileNotFoundError:
        raise changed_while_saved(path) from None
    if not is_as_it_was(path, files, saver.folder):
        raise changed_while_saved(path)
    keeper.settle()
    return entries, [file.seen for file in files if not file.is_folder]


def put(keeper: BlobWriter, folder: str, record: Mapping[str, Any], entries: list[Entry]) -> int:
    """Create a checkpoint from stored files and return its number."""
    encoded = encode(entries)
    if len(encoded) > LARGEST_MANIFEST:
        raise invalid(
            f"The checkpoint was not saved: the list of its {len(entries):,} files is larger than "
            "64 MB.",
            "Save fewer files, such as one archive.",
        )
    manifest = keeper.put(encoded)
    return _write(folder, {**record, "manifest": manifest, "time": time.time()})


def _write(folder: str, record: Mapping[str, Any]) -> int:
    """Write a checkpoint's record atomically under the next number, and return the number."""
    temporary = os.path.join(folder, f".{record['uid']}-{os.getpid()}-{get_ident()}")
    try:
        with open(temporary, "x", opener=_owner_only) as file:
            file.write(json.dumps(record))
            file.flush()
            os.fsync(file.fileno())
        number = _link_as_next(temporary, folder)
    finally:
        remove_if_there(temporary)
    _flush(folder)
    return number


def adopt(folder: str, record: Mapping[str, Any]) -> int:
    """Store the record of another machine's checkpoint, unless it is already stored.

    Return the checkpoint's number.
    """
    make_folder(folder, 0o700)
    with locked(folder):
        for number, existing in records(folder):
            if existing.get("uid") == record["uid"]:
                return number
        return _write(folder, record)


def clear(folder: str) -> None:
    """Delete unfinished records and restored copies of a trial without any running process."""
    from windlass.worker.blobs.writer import remove_tree

    for name in os.listdir(folder):
        if name.startswith("."):
            path = os.path.join(folder, name)
            remove_tree(path)
            remove_if_there(path)


def records(folder: str) -> list[tuple[int, dict[str, Any]]]:
    """Return a trial's valid checkpoints with their numbers, newest first."""
    while True:
        numbers = _numbers(folder)
        read = [(number, read_record(folder, number)) for number in sorted(numbers, reverse=True)]
        valid = [(number, record) for number, record in read if record is not None]
        # After the folder was listed, a newer record may have been added and an older one deleted.
        if len(valid) == len(numbers) or numbers == _numbers(folder):
            return valid


def read_record(folder: str, number: int) -> dict[str, Any] | None:
    """Return the record with this number, or None if it is missing or invalid."""
    record = read_json(os.path.join(folder, f"{number}.json")) or {}
    name, manifest = record.get("name"), record.get("manifest")
    if not isinstance(name, str) or name != os.path.basename(name) or not name:
        return None
    return record if is_digest(manifest) else None


def write_origin(folder: str, record: Mapping[str, Any]) -> None:
    """Store another trial's checkpoint as number 0, so that this trial starts from it."""
    from windlass.worker.common.atomic_files import write_json

    path = os.path.join(folder, "0.json")
    if not os.path.exists(path):
        make_folder(folder, 0o700)
        write_json(path, record, durable=True)


def name_of(path: str) -> str:
    """Return the file name that a saved path will have in a restored copy."""
    return os.path.basename(os.path.abspath(path)) or "checkpoint"


@contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold the exclusive lock on a trial's checkpoints."""
    import fcntl

    fd = os.open(os.path.join(folder, ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _keep_others(
    keeper: BlobWriter, files: list[ScannedFile], before: PreviousCheckpoint
) -> Iterator[Entry]:
    """Store large files, each in its own blob. Yield the manifest entries of folders and files."""
    begun: deque[tuple[ScannedFile, Callable[[], str]]] = deque()
    for file in files:
        wait = str if file.is_folder else keeper.keep(file, before.digest(file))
        begun.append((file, wait))
        if len(begun) > _AT_A_TIME:
            yield _finished(*begun.popleft())
    yield from (_finished(*pending) for pending in begun)


def _finished(file: ScannedFile, wait: Callable[[], str]) -> Entry:
    if file.is_folder:
        return (file.relative_path, "d", "", 0)
    return (file.relative_path, file.mode, wait(), file.seen.st_size)


def _newest(saver: Saver) -> PreviousCheckpoint:
    """Return the newest checkpoint's manifest entries."""
    from windlass.worker.blobs.bundle_small_files import PreviousCheckpoint

    for _, record in records(saver.folder)[:1]:
        try:
            return PreviousCheckpoint(decode(read_blob(saver.blobs, record["manifest"])))
        except (OSError, KeyError, TypeError, ValueError):
            break
    return PreviousCheckpoint()


def _numbers(folder: str) -> set[int]:
    texts = (name[:-5] for name in list_folder(folder) if name.endswith(".json"))
    return {int(text) for text in texts if text.isascii() and text.isdecimal() and len(text) < 10}


def _link_as_next(temporary: str, folder: str) -> int:
    """Link a finished record file under the next free checkpoint number, and return the number.

    The number is unique even if several processes save at the same time.
    """
    number = max(_numbers(folder) | {0}) + 1
    while True:
        try:
            os.link(temporary, os.path.join(folder, f"{number}.json"))
        except FileExistsError:
            number += 1
        else:
            return number


def _up(path: str, levels: int) -> str:
    for _ in range(levels):
        path = os.path.dirname(path)
    return path


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _flush(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

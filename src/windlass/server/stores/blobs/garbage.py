"""Garbage collection, which deletes unused blobs and the folders of deleted trials.

Keeping too much is better than deleting a needed file. The collector therefore deletes a trial's
folder only if the folder contains a mark that the trial was deleted. A missing database row is not
enough, because a database restored from an older copy lacks the newest trials.

The collector keeps a blob if any row of any table contains a text that looks like the blob's
digest, and also keeps all blobs that a kept manifest lists. A new table therefore needs no code
here. The collector also keeps young and recently requested blobs, because a client may be about to
refer to them, and blobs that have a second hard link (see server/stores/blobs/files.py). Trials
write checkpoints to the store themselves, so the collector deletes no blob while a trial saves a
checkpoint.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from windlass.model.errors import Conflict
from windlass.model.requests import GarbageReport, UnknownFolder
from windlass.runtimes.paths import LAUNCH
from windlass.server.db.base import Connection, Database
from windlass.server.stores.blobs.files import DIGEST_IN_TEXT, FileBlobStore
from windlass.worker.blobs.writer import LOCK as SAVING_LOCK
from windlass.worker.common.file_reads import exists, read_file

# Large columns that never contain a digest. The collector does not read them.
_PASSED_OVER: dict[str, frozenset[str]] = {"events": frozenset({"kind", "reason", "message"})}
GONE = ".gone-"
_DELETED = ".deleted"  # the mark in the folder of a trial whose rows are being deleted
# The folder in the home to which the folders of unknown trials are moved.
SET_ASIDE = "set-aside"
_MOST_REPORTED = 1000  # the most unknown folders to list in a report
_CHECKPOINTS = "checkpoints"
_SHARDS = ".shards"  # the folder that contains a folder for each incomplete checkpoint
_LARGEST_RECORD = 64 << 20
_PATIENCE = 30.0  # seconds to wait for a moment at which no trial saves a checkpoint
_TRY_AGAIN = 0.05


class Garbage:
    """Deletes unused data. Only one collection runs at a time."""

    def __init__(self, trials: Path, blobs: FileBlobStore, database: Database) -> None:
        self._trials = trials
        self._set_aside = trials.parent / SET_ASIDE
        self._blobs = blobs
        self._db = database
        self._turn = threading.Lock()

    def collect(
        self, older_than: float, *, dry_run: bool = False, set_aside: bool = False
    ) -> GarbageReport:
        """Delete data that was unused for `older_than` seconds, and return a report.

        Folders of trials that are not in the database are kept. If `set_aside` is true, they are
        moved to the home's folder `set-aside`.
        """
        if not self._turn.acquire(blocking=False):
            raise Conflict(
                "A garbage collection is already running.", hint="Try again when it is done."
            )
        try:
            gone, unknown = self._folders()
            freed = sum(map(_size, gone))
            for folder in [] if dry_run else gone:
                shutil.rmtree(folder, ignore_errors=True)
            listed = tuple(
                UnknownFolder(name=folder.name, bytes=_size(folder), modified=_modified(folder))
                for folder in unknown[:_MOST_REPORTED]
            )
            target = self._move_aside(unknown) if set_aside and unknown and not dry_run else None
            with _alone(self._blobs.root):
                report = self._collect_blobs(older_than, dry_run=dry_run)
        finally:
            self._turn.release()
        return msgspec.structs.replace(
            report,
            bytes=report.bytes + freed,
            folders=len(gone),
            unknown=listed,
            unknown_count=len(unknown),
            set_aside=str(target or ""),
        )

    def _collect_blobs(self, older_than: float, *, dry_run: bool) -> GarbageReport:
        kept = self._pointed_to()
        limit = time.time() - older_than
        lately = self._blobs.lately()
        old: dict[str, int] = {}
        young = set()
        for digest, status in self._blobs.list_blobs():
            if digest in kept:
                continue
            if digest in lately or status.st_mtime > limit or status.st_nlink > 1:
                young.add(digest)
            else:
                old[digest] = status.st_size
        young -= kept
        kept |= young | self._named_by(young)
        # Delete manifests before the blobs that they list, so that all blobs of an existing
        # manifest exist.
        lists = [
            digest
            for digest in old
            if digest not in kept and self._blobs.listed(digest) is not None
        ]
        others = old.keys() - set(lists)
        number = size = 0
        for batch in (lists, sorted(others)):
            kept |= self._named_by(self._blobs.lately())
            for digest in batch:
                if digest in kept:
                    continue
                if dry_run or self._blobs.withdraw(digest):
                    number += 1
                    size += old[digest]
        if not dry_run:
            self._blobs.discard_damaged(kept, limit)
        return GarbageReport(blobs=number, bytes=size, kept=len(kept), young=len(young))

    def _pointed_to(self) -> set[str]:
        """Return all digests that occur in records, and in the manifests that records refer to."""
        # Read record files before the database, because their contents may move to the database
        # meanwhile.
        named = set(self._in_records())
        named |= self._db.read(lambda connection: set(_digests_in(connection)))
        return named | self._named_by(named)

    def _in_records(self) -> Iterator[str]:
        """Yield the digests in the files that record a trial's checkpoints.

        The database might not contain these records yet. For a trial that has no database row, also
        yield the digests in its launch files.
        """
        for trial in _names(self._trials):
            folder = self._trials / trial / _CHECKPOINTS
            parts = [folder / _SHARDS / name for name in _names(folder / _SHARDS)]
            for directory in (folder, *parts):
                for name in _names(directory):
                    yield from _digests_of_record(directory / name)
        aside = [self._set_aside / moment for moment in _names(self._set_aside)]
        unknown = [
            *self._folders()[1],
            *(folder / name for folder in aside for name in _names(folder)),
        ]
        for folder in unknown:  # for trials that have no row, keep code, calls and checkpoints
            for path in (*folder.glob(f"*/*/{LAUNCH}"), *folder.glob(f"{_CHECKPOINTS}/*.json")):
                yield from _digests_of_record(path)

    def _named_by(self, digests: Iterable[str]) -> set[str]:
        return {named for digest in digests for named in self._blobs.listed(digest) or ()}

    def _folders(self) -> tuple[list[Path], list[Path]]:
        """Return the folders of deleted trials, and the folders of trials that have no row.

        A row is a trial's entry in the database.
        """
        folders = [self._trials / name for name in _names(self._trials)]
        # Read rows after listing the folders, because a new trial gets its row before its folder.
        rows = self._db.read(lambda connection: connection.rows("SELECT id FROM trials"))
        trial_ids = {str(row["id"]) for row in rows}
        gone = [folder for folder in folders if folder.name.startswith(GONE)]
        unknown: list[Path] = []
        for folder in folders:
            is_a_trials = folder.name.isdecimal() and folder.name.isascii()
            if is_a_trials and folder.name not in trial_ids:
                (gone if exists(folder / _DELETED) else unknown).append(folder)
        return gone, sorted(unknown, key=lambda folder: int(folder.name))

    def _move_aside(self, folders: Iterable[Path]) -> Path:
        target = self._set_aside / time.strftime("%Y%m%d-%H%M%S")
        target.mkdir(parents=True, exist_ok=True)
        for folder in folders:
            folder.rename(target / folder.name)
        return target


def mark_deleted(trials: Path, trial_id: int) -> None:
    """Mark a trial's folder before the trial's rows are deleted.

    If the server is killed after that, the next garbage collection deletes the folder.
    """
    with contextlib.suppress(OSError):  # a folder without the mark counts as unknown and is kept
        (trials / str(trial_id) / _DELETED).touch()


def remove_folder(trials: Path, trial_id: int) -> None:
    """Delete a deleted trial's folder. Garbage collection later deletes any remaining files."""
    folder, aside = trials / str(trial_id), trials / f"{GONE}{trial_id}"
    try:
        folder.rename(aside)
    except OSError:
        return  # there was no folder, or garbage collection has deleted it
    shutil.rmtree(aside, ignore_errors=True)


def _digests_in(connection: Connection) -> Iterator[str]:
    for table, columns in connection.text_columns().items():
        looked_at = [name for name in columns if name not in _PASSED_OVER.get(table, ())]
        if not looked_at:
            continue
        listed = ", ".join(f'"{name}"' for name in looked_at)
        for row in connection.iterate(f"SELECT {listed} FROM {table}"):
            for value in row:
                if value is not None and len(value) >= 64:
                    data = value if isinstance(value, bytes) else value.encode(errors="replace")
                    yield from (digest.decode() for digest in DIGEST_IN_TEXT.findall(data))


def _digests_of_record(path: Path) -> Iterator[str]:
    data = read_file(str(path), _LARGEST_RECORD) or b""
    yield from (digest.decode() for digest in DIGEST_IN_TEXT.findall(data))


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


@contextlib.contextmanager
def _alone(blobs: Path) -> Iterator[None]:
    """Lock the blob store exclusively, after waiting until no trial saves a checkpoint.

    A trial that wants to save a checkpoint waits until the lock is free.
    """
    fd = os.open(blobs / SAVING_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + _PATIENCE
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Conflict(
                        "Nothing was freed, because trials keep saving checkpoints.",
                        hint="Try again later.",
                    ) from None
                time.sleep(_TRY_AGAIN)  # flock has no timeout
        yield
    finally:
        os.close(fd)


def _modified(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _size(folder: Path) -> int:
    """Return the total size of all readable files in a folder."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total

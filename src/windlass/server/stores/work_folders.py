"""Cleans up the folders of finished trials, so that only their artifacts remain.

Everything in a working folder that `LeftOut` recognizes is deleted: caches, hidden files, files
that are stored as checkpoints, and unchanged code if a killed supervisor left it. Programs may also
write above their project, such as to `../data`. Of the entries above the project, folders for data
are deleted. All others are moved to the output folder, because they may be results.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from queue import SimpleQueue

from windlass.model.errors import shown
from windlass.model.status import Event
from windlass.server.stores.blobs.garbage import GONE
from windlass.worker.blobs.written_files import (
    PARENT,
    WORK,
    LeftOut,
    entries_above,
    is_data,
)
from windlass.worker.common.atomic_files import make_folder, take_lock
from windlass.worker.common.own_attempt import OUTPUTS

_MOST_NAMED = 5
_PATIENCE = 5.0  # seconds until the supervisor that uses a working folder must have cleaned it
_log = logging.getLogger(__name__)


class WorkFolders:
    """Cleans up the folders of finished trials. Slow work is done in a thread."""

    def __init__(self, trials: Path) -> None:
        self._trials = trials
        self._waiting: SimpleQueue[Path] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def settle(self, trial_id: int, replicas: Iterable[Path]) -> list[Event]:
        """Clean up a finished trial's replicas. Return events about files above the project."""
        deleted: set[str] = set()
        kept: set[str] = set()
        for replica in replicas:
            for name in entries_above(str(replica)):
                if is_data(name) or (replica / name).is_symlink():
                    is_volume = (replica / name).is_symlink()
                    self._delete(trial_id, replica / name)
                    deleted.update(() if is_volume or name.startswith(".") else (name,))
                elif _keep(replica, name):
                    kept.add(name)
            with contextlib.suppress(OSError), os.scandir(replica / WORK) as entries:
                if next(entries, None) is not None:
                    self._clean_later(replica)
        return [*_kept_event(kept), *_deleted_event(deleted)]

    def _delete(self, trial_id: int, path: Path) -> None:
        """Delete a link, file or folder.

        If this process dies first, garbage collection deletes the rest.
        """
        aside = self._trials / f"{GONE}{trial_id}-{os.urandom(8).hex()}"
        with contextlib.suppress(OSError):
            path.rename(aside)
            self._clean_later(aside)

    def _clean_later(self, folder: Path) -> None:
        self._waiting.put(folder)
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="windlass-work-folders", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        while True:
            folder = self._waiting.get()
            try:
                if folder.name.startswith(GONE):
                    _remove(folder)
                else:
                    _clean(folder)
            except Exception:  # noqa: BLE001 -- the remaining folders are still cleaned up
                _log.exception("files of a finished trial are left in %s", folder)


def _keep(replica: Path, name: str) -> bool:
    """Move an entry above the project to the output folder."""
    folder = replica / OUTPUTS / PARENT
    try:
        make_folder(str(folder), 0o700)
        if not os.path.lexists(folder / name):
            (replica / name).rename(folder / name)
            return True
    except OSError:
        pass
    return False


def _clean(replica: Path) -> None:
    """Delete everything in a working folder that is no artifact.

    Do nothing if a new attempt uses the working folder.
    """
    lock = _wait_for_lock(f"{replica / WORK}.lock")
    if lock is None:
        return
    try:
        _clean_below(os.fsencode(replica / WORK), b"", LeftOut(str(replica)))
    finally:
        os.close(lock)


def _clean_below(root: bytes, folder: bytes, is_left_out: LeftOut) -> None:
    for name in os.listdir(os.path.join(root, folder)):
        path = os.path.join(folder, name)
        whole = os.path.join(root, path)
        with contextlib.suppress(OSError):
            status = os.lstat(whole)
            if is_left_out(path, status) or not _may_be_artifact(status):
                _remove(Path(os.fsdecode(whole)))
            elif stat.S_ISDIR(status.st_mode):
                _clean_below(root, path, is_left_out)


def _may_be_artifact(status: os.stat_result) -> bool:
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return any(is_of_kind(status.st_mode) for is_of_kind in kinds)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _wait_for_lock(path: str) -> int | None:
    give_up = time.monotonic() + _PATIENCE
    while True:
        lock = take_lock(path)
        if lock is not None or time.monotonic() > give_up:
            return lock
        time.sleep(0.02)  # flock has no timeout


def _kept_event(names: set[str]) -> list[Event]:
    if not names:
        return []
    message = f"{_listed(names)} above the project: kept as artifacts in {PARENT}/"
    return [Event(time=time.time(), reason="FilesMoved", message=message)]


def _deleted_event(names: set[str]) -> list[Event]:
    if not names:
        return []
    first = min(names)
    message = (
        f"{_listed(names)} above the project: deleted, because it is data. To share it between "
        f'trials: volumes={{"../{first}": "/path/to/{first}"}}'
    )
    return [Event(time=time.time(), reason="DataDeleted", message=message)]


def _listed(names: set[str]) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return ", ".join(map(shown, listed[:_MOST_NAMED])) + more

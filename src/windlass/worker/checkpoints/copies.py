"""Copies of checkpoints: files and folders that a program can change.

A copy lies in `.restored/<number>-<uid>.<role>-<index>-<attempt>/` in the trial's checkpoint
folder. The name identifies the attempt that uses the copy. It also contains the beginning of the
checkpoint's uid, because a deleted checkpoint's number may be reused. Programs never get paths in
the blob store, because a write there would change every checkpoint that contains the file.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

from windlass.worker.blobs.restore_tree import RestoreError, read_tree, restore
from windlass.worker.blobs.verified_reads import DamagedBlob, read_blob
from windlass.worker.checkpoints import records as checkpoint_records
from windlass.worker.common.atomic_files import is_locked, make_folder
from windlass.worker.common.file_reads import is_folder, list_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from windlass.worker.checkpoints.records import Saver

_RESTORED = ".restored"
_UNFINISHED = ".unfinished-"


def latest(saver: Saver, *, shared: bool = False, restored: str | None = None) -> str | None:
    """Return the path of a copy of the newest checkpoint, or None if there is no checkpoint.

    If there is no copy yet, restore the checkpoint. `restored` is the path of this attempt's
    earlier copy. Set `shared` if all replicas started together. The result can then be a copy that
    another running replica uses.
    """
    if not checkpoint_records.records(saver.folder):
        return None
    with (
        checkpoint_records.locked(saver.folder) if shared else nullcontext()
    ):  # one process copies while the others wait
        return _latest(saver, shared, restored)


def _latest(saver: Saver, shared: bool, restored: str | None) -> str | None:
    for number, record in checkpoint_records.records(saver.folder):
        which = _which(number, record)
        mine = f"{which}{saver.role}-{saver.index}-{saver.attempt}"
        owners = [os.path.basename(os.path.dirname(restored))] if restored else []
        for name in (mine, *owners, *(_of_siblings(saver, which) if shared else ())):
            path = os.path.join(saver.folder, _RESTORED, name, record["name"])
            if name.startswith(which) and os.path.exists(path):
                return path
        try:
            return _restore(saver, record, mine)
        except FileNotFoundError:
            now = checkpoint_records.read_record(saver.folder, number)
            if now is not None and now.get("uid") == record.get("uid"):
                # otherwise, this checkpoint was deleted, and a different one is now the newest
                raise
            return _latest(saver, shared, restored)
    return None


def forget_superseded(saver: Saver) -> None:
    """Remove the checkpoint copies that belong to attempts which newer attempts have replaced."""
    from windlass.worker.blobs.writer import remove_tree

    for name, owner in _copies(saver):
        if is_folder(_attempt_of(saver, owner[0], owner[1] + 1)):
            remove_tree(os.path.join(saver.folder, _RESTORED, name))


def forget_others(saver: Saver, besides: str | None) -> None:
    """Remove the checkpoint copies that belong to this attempt and are no longer needed.

    A copy of the newest checkpoint and the copy at the path `besides` stay.
    """
    from windlass.worker.blobs.writer import remove_tree

    newest = next(
        (_which(*numbered) for numbered in checkpoint_records.records(saver.folder)), "none"
    )
    for name, owner in _copies(saver):
        is_mine = owner == (f"{saver.role}-{saver.index}", saver.attempt)
        is_needed = name.startswith(newest) or (besides and f"/{name}/" in besides)
        if is_mine and not is_needed:
            remove_tree(os.path.join(saver.folder, _RESTORED, name))


def _restore(saver: Saver, record: dict[str, Any], name: str) -> str:
    from windlass.worker.blobs.writer import held, remove_tree

    top = os.path.join(saver.folder, _RESTORED)
    temporary = os.path.join(top, f"{_UNFINISHED}{name}-{os.getpid()}")
    target = os.path.join(top, name)
    make_folder(temporary, 0o700)
    try:
        with held(saver.blobs):
            tree = read_tree(read_blob(saver.blobs, record["manifest"]))
            into = os.path.join(temporary, record["name"]) if record.get("is_folder") else temporary
            restore(tree, into, saver.blobs, stamped=False)
        try:
            os.rename(temporary, target)
        except OSError:
            if not os.path.isdir(target):  # another thread was faster
                raise
    except DamagedBlob:
        raise RestoreError(
            f"the list of files of the checkpoint of step {record.get('step')} is damaged in the "
            "store and was set aside"
        ) from None
    except RestoreError as error:
        raise RestoreError(f"the checkpoint of step {record.get('step')}: {error}") from None
    finally:
        remove_tree(temporary)
    return os.path.join(target, record["name"])


def _which(number: int, record: dict[str, Any]) -> str:
    """Return the prefix that the folder names of all copies of a checkpoint have in common."""
    return f"{number}-{str(record.get('uid', ''))[:8]}."


def _of_siblings(saver: Saver, which: str) -> list[str]:
    """Return the names of a checkpoint's copies that belong to running attempts of the trial."""
    return [
        name
        for name, owner in _copies(saver)
        if name.startswith(which) and is_locked(os.path.join(_attempt_of(saver, *owner), "lock"))
    ]


def _copies(saver: Saver) -> list[tuple[str, tuple[str, int]]]:
    """Return the name of each checkpoint copy, and the replica and attempt that use the copy."""
    copies = []
    for name in list_folder(os.path.join(saver.folder, _RESTORED)):
        replica, _, attempt = name.partition(".")[2].rpartition("-")
        if not name.startswith(".") and replica and attempt.isdecimal():
            copies.append((name, (replica, int(attempt))))
    return copies


def _attempt_of(saver: Saver, replica: str, attempt: int) -> str:
    return os.path.join(os.path.dirname(saver.folder), replica, str(attempt))

"""Checkpoints as files again: copies that a program may do with as it likes.

A copy lies in `.restored/<number>-<uid>.<role>-<index>-<attempt>/` among the trial's checkpoints,
after the attempt that it was made for; of the uid the beginning, since the number of one that was
deleted may be given again. The store is never handed out: a program that writes to what it was
given would write into every checkpoint that has the file.
"""

from __future__ import annotations

import os
from contextlib import nullcontext

from windlass.worker import checkpoints
from windlass.worker.digests import place_of
from windlass.worker.files import is_locked
from windlass.worker.restore import RestoreError, read_tree, restore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from windlass.worker.checkpoints import Saver

_RESTORED = ".restored"
_UNFINISHED = ".unfinished-"


def latest(saver: Saver, *, shared: bool = False, given: str | None = None) -> str | None:
    """Where the newest checkpoint lies as a file or folder, restored if need be; none if none.

    `given` is a path that was restored for this attempt before. With `shared`, the copy of a
    sibling that is alive will do: they all started together.
    """
    if not checkpoints.records(saver.folder):
        return None
    with checkpoints.locked(saver.folder) if shared else nullcontext():  # one copies, all wait
        return _latest(saver, shared, given)


def _latest(saver: Saver, shared: bool, given: str | None) -> str | None:
    for number, record in checkpoints.records(saver.folder):
        if "path" in record:
            return str(record["path"])  # of an old version: it is such a copy
        which = _which(number, record)
        mine = f"{which}{saver.role}-{saver.index}-{saver.attempt}"
        owners = [os.path.basename(os.path.dirname(given))] if given else []
        for name in (mine, *owners, *(_of_siblings(saver, which) if shared else ())):
            path = os.path.join(saver.folder, _RESTORED, name, record["name"])
            if name.startswith(which) and os.path.exists(path):
                return path
        try:
            return _restore(saver, record, mine)
        except FileNotFoundError:
            now = checkpoints.read_record(saver.folder, number)
            if now is not None and now.get("uid") == record.get("uid"):
                raise  # else it was deleted meanwhile: another is the newest now
            return _latest(saver, shared, given)
    return None


def forget_superseded(saver: Saver) -> None:
    """Remove copies whose replicas have a newer attempt: nobody reads them any more."""
    from windlass.worker.keeping import remove_tree

    for name, owner in _copies(saver):
        if os.path.isdir(_attempt_of(saver, owner[0], owner[1] + 1)):
            remove_tree(os.path.join(saver.folder, _RESTORED, name))


def forget_others(saver: Saver, besides: str | None) -> None:
    """Remove this attempt's own copies but for the newest and the one it was started with."""
    from windlass.worker.keeping import remove_tree

    newest = next((_which(*each) for each in checkpoints.records(saver.folder)), "none")
    for name, owner in _copies(saver):
        is_mine = owner == (f"{saver.role}-{saver.index}", saver.attempt)
        is_needed = name.startswith(newest) or (besides and f"/{name}/" in besides)
        if is_mine and not is_needed:
            remove_tree(os.path.join(saver.folder, _RESTORED, name))


def _restore(saver: Saver, record: dict[str, Any], name: str) -> str:
    from windlass.worker.keeping import held, remove_tree

    top = os.path.join(saver.folder, _RESTORED)
    temporary = os.path.join(top, f"{_UNFINISHED}{name}-{os.getpid()}")
    target = os.path.join(top, name)
    os.makedirs(temporary, mode=0o700, exist_ok=True)
    try:
        with held(saver.blobs):
            manifest = record["manifest"]
            with open(place_of(saver.blobs, manifest), "rb") as file:
                tree = read_tree(file.read())
            into = os.path.join(temporary, record["name"]) if record.get("is_folder") else temporary
            restore(tree, into, saver.blobs, stamped=False)
        try:
            os.rename(temporary, target)
        except OSError:
            if not os.path.isdir(target):  # another thread was faster
                raise
    except RestoreError as error:
        raise RestoreError(f"the checkpoint of step {record.get('step')}: {error}") from None
    finally:
        remove_tree(temporary)
    return os.path.join(target, record["name"])


def _which(number: int, record: dict[str, Any]) -> str:
    """How the names of copies of a checkpoint begin."""
    return f"{number}-{str(record.get('uid', ''))[:8]}."


def _of_siblings(saver: Saver, which: str) -> list[str]:
    """Copies of that checkpoint that belong to attempts which are alive."""
    return [
        name
        for name, owner in _copies(saver)
        if name.startswith(which) and is_locked(os.path.join(_attempt_of(saver, *owner), "lock"))
    ]


def _copies(saver: Saver) -> list[tuple[str, tuple[str, int]]]:
    """The copies there are: the name of each, and the replica and attempt it is of."""
    try:
        names = os.listdir(os.path.join(saver.folder, _RESTORED))
    except OSError:
        return []
    found = []
    for name in names:
        replica, _, attempt = name.partition(".")[2].rpartition("-")
        if not name.startswith(".") and replica and attempt.isdecimal():
            found.append((name, (replica, int(attempt))))
    return found


def _attempt_of(saver: Saver, replica: str, attempt: int) -> str:
    return os.path.join(os.path.dirname(saver.folder), replica, str(attempt))

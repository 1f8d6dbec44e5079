"""The checkpoints of a trial: `<number>/` each, whole or not there, the highest the newest.

In each, `checkpoint.json` says what it is, and `data/` holds what was saved, under its own name.
All replicas and attempts of a trial share them, and they stay when it is over.
"""

from __future__ import annotations

import os
import time
from _thread import get_ident

from windlass.worker.files import read_json, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_RECORD = "checkpoint.json"
_DATA = "data"


def latest(folder: str) -> str | None:
    """The file or folder that the newest checkpoint is; none if there is none.

    >>> latest("/nowhere/trials/1/checkpoints") is None
    True
    """
    for number in sorted(_numbers(folder), reverse=True):
        found = _saved_in(os.path.join(folder, str(number)))
        if found is not None:
            return found
    return None


def save(folder: str, path: str, of: Mapping[str, object]) -> str:
    """Keep a copy of a file or a folder as the newest checkpoint; where it is.

    It is copied aside and put in place at once: until then, the one before is the newest.
    """
    name = os.path.basename(os.path.abspath(path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Two attempts of a replica never run at the same time: what others left is of no use.
    mine = f".{of.get('role')}-{of.get('index')}-{of.get('attempt')}."
    _clear(folder, besides=mine)
    temporary = os.path.join(folder, f"{mine}{os.getpid()}-{get_ident()}")
    try:
        os.mkdir(temporary, 0o700)
        os.mkdir(os.path.join(temporary, _DATA), 0o700)
        _copy(path, os.path.join(temporary, _DATA, name), besides=temporary)
        record = {"name": name, "time": time.time(), **of}
        write_json(os.path.join(temporary, _RECORD), record)
        _flush(temporary)
        number = _put_in_place(temporary, folder)
    except BaseException:  # Ctrl-C, too, leaves no half copy
        _remove(temporary)
        raise
    _flush_one(folder)
    return os.path.join(folder, str(number), _DATA, name)


def _numbers(folder: str) -> list[int]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [int(name) for name in names if name.isdecimal() and name.isascii()]


def _saved_in(checkpoint: str) -> str | None:
    """What was saved in a checkpoint; none if somebody spoilt it."""
    name = (read_json(os.path.join(checkpoint, _RECORD)) or {}).get("name")
    if not isinstance(name, str) or name != os.path.basename(name):
        return None
    path = os.path.join(checkpoint, _DATA, name)
    return path if os.path.exists(path) else None


def _copy(source: str, target: str, *, besides: str) -> None:
    """A copy, never a link: training writes to the same file again."""
    import shutil  # of those who save, and of nobody else

    own = os.path.realpath(besides)

    def left_out(folder: str, names: list[str]) -> list[str]:
        around = [own, *_folders_around(source, folder)]
        return [name for name in names if _leads_nowhere(os.path.join(folder, name), around)]

    if os.path.isdir(source):
        shutil.copytree(source, target, copy_function=shutil.copyfile, ignore=left_out)
    else:
        shutil.copyfile(source, target)


def _folders_around(source: str, folder: str) -> Iterator[str]:
    """A folder that is being copied, and those it was reached through: where they really are."""
    yield os.path.realpath(folder)
    while len(folder) > len(source):
        folder = os.path.dirname(folder)
        yield os.path.realpath(folder)


def _leads_nowhere(path: str, around: list[str]) -> bool:
    """Whether there is nothing to copy: of a link into the void, or back to where we are.

    Followed, that would have no end. (copytree's own way with links into the void loses relative
    ones.)
    """
    if not os.path.exists(path):
        return True
    if not os.path.islink(path) and os.path.basename(path) != os.path.basename(around[0]):
        return False
    real = os.path.realpath(path)
    return any(f"{each}{os.sep}".startswith(f"{real.rstrip(os.sep)}{os.sep}") for each in around)


def _put_in_place(temporary: str, folder: str) -> int:
    """Give it the next number, and that number."""
    number = max(_numbers(folder), default=0) + 1
    while True:
        try:
            os.rename(temporary, os.path.join(folder, str(number)))
        except OSError:
            # Another thread's has it: an empty folder would have been replaced.
            if not os.path.lexists(os.path.join(folder, str(number))):
                raise
            number += 1
        else:
            return number


def _flush(folder: str) -> None:
    """Have all of a folder on the disk: a loss of power must not leave its name without it."""
    for path in _walk(folder):
        _flush_one(path)


def _walk(folder: str) -> Iterator[str]:
    for root, _, files in os.walk(folder):
        for name in files:
            yield os.path.join(root, name)
        yield root


def _flush_one(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _clear(folder: str, besides: str) -> None:
    for name in os.listdir(folder):
        if name.startswith(".") and not name.startswith(besides):
            _remove(os.path.join(folder, name))


def _remove(path: str) -> None:
    import shutil

    shutil.rmtree(path, ignore_errors=True)

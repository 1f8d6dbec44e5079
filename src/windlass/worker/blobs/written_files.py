"""Finds the files that a trial's program wrote to its working folder.

The working folder also contains the restored code, caches, and files that are stored as checkpoints
anyway. `LeftOut` recognizes these, so that all other files count as written by the program. Folders
are walked without following links.
"""

from __future__ import annotations

import functools
import os
import stat
import struct
from typing import NamedTuple

from windlass.worker.blobs.manifest import decode
from windlass.worker.blobs.restore_tree import RESTORED
from windlass.worker.blobs.verified_reads import read_blob
from windlass.worker.common.file_reads import list_folder, read_file, read_json
from windlass.worker.common.own_attempt import OUTPUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

WORK = "work"  # the working copy of the code in a replica's folder
SAVED = "saved"  # a file in an attempt's folder, see `note_saved`
PARENT = "parent"  # the folder of artifacts that a program wrote above its project
_OWN = frozenset((OUTPUTS, WORK, f"{WORK}.lock"))
_DATA = frozenset(("data", "dataset", "datasets"))
_CACHES = frozenset((b"__pycache__", b"node_modules"))
_HIDDEN_BUT_KEPT = frozenset((b".hydra",))  # the configuration of a run of Hydra
_FINGERPRINT = struct.Struct("<3Q2q")
_MOST_SAVED = 16 << 20  # bytes; later files are listed although they are in a checkpoint


class WrittenFile(NamedTuple):
    """A file, its path below the walked folder, and why it cannot be read."""

    path: bytes
    status: os.stat_result | None
    problem: str


def is_ignored(name: bytes) -> bool:
    """Return whether a file or folder with this name is a cache or hidden.

    >>> is_ignored(b"__pycache__"), is_ignored(b".cache"), is_ignored(b".hydra"), is_ignored(b"a")
    (True, True, False, False)
    """
    return name in _CACHES or (name.startswith(b".") and name not in _HIDDEN_BUT_KEPT)


def is_data(name: str) -> bool:
    """Return whether an entry above the project is a folder for data or a cache."""
    return name in _DATA or is_ignored(os.fsencode(name))


def entries_above(replica: str) -> list[str]:
    """Return the names of entries that a program created above its project.

    A program that writes to `../data` creates such an entry, beside the folders of Windlass.
    """
    return [name for name in list_folder(replica) if not is_own_name(name)]


def is_own_name(name: str) -> bool:
    """Return whether an entry of a replica's folder belongs to Windlass.

    >>> [is_own_name(name) for name in ("work", "outputs", "12", "data")]
    [True, True, True, False]
    """
    return name in _OWN or (name.isascii() and name.isdecimal())


def note_saved(attempt_dir: str, statuses: Iterable[os.stat_result]) -> None:
    """Record that files are stored in a checkpoint, so that they do not count as written files."""
    records = b"".join(_FINGERPRINT.pack(*_fingerprint(status)) for status in statuses)
    path = os.path.join(attempt_dir, SAVED)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(fd).st_size + len(records) <= _MOST_SAVED:
                os.write(fd, records)
        finally:
            os.close(fd)
    except OSError:
        pass  # the files are then listed although they are in a checkpoint


class LeftOut:
    """Decides which entries of a working folder do not count as written by the program."""

    def __init__(self, replica: str) -> None:
        attempts = sorted((name for name in list_folder(replica) if name.isdecimal()), key=int)
        self._replica = replica
        self._attempts = attempts
        self._saved = {
            fingerprint for attempt in attempts for fingerprint in _saved(replica, attempt)
        }

    def __call__(self, path: bytes, status: os.stat_result) -> bool:
        """Return whether to leave out an entry with this path below the working folder."""
        if is_ignored(path.rpartition(b"/")[2]):
            return True
        if stat.S_ISREG(status.st_mode):
            if self._saved and _fingerprint(status) in self._saved:
                return True
            # a program's file may have this time as well, for example from an archive
            return status.st_mtime_ns == RESTORED and self._is_code(path, "", status.st_size)
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(os.path.join(os.fsencode(self._replica), WORK.encode(), path))
            return self._is_code(path, _text(target), 0)
        return False

    def _is_code(self, path: bytes, target: str, size: int) -> bool:
        return self._code is None or self._code.get(_text(path)) == (target, size)

    @functools.cached_property
    def _code(self) -> Mapping[str, tuple[str, int]] | None:
        """The link target and size of each file of the code. None if these are unknown."""
        if not self._attempts:
            return {}
        newest = os.path.join(self._replica, self._attempts[-1], "launch.json")
        launch: dict[str, Any] = read_json(newest) or {}
        if not launch.get("tree"):
            return {}
        try:
            return _list_code(launch["blobs"], os.path.basename(launch["tree"]))
        except (OSError, ValueError, KeyError):
            return None


def walk(
    root: bytes,
    beyond: bytes = b"",
    is_left_out: Callable[[bytes, os.stat_result], bool] = lambda _path, _status: False,
) -> Iterator[WrittenFile]:
    """Yield the files below a folder that come after the path `beyond`, sorted by path.

    For an unreadable folder, yield its path and an error message.
    """
    try:
        waiting = [_inside(root, b"", beyond.split(b"/") if beyond else [])]
    except (FileNotFoundError, NotADirectoryError):
        return
    while waiting:
        path, rest = next(waiting[-1], (None, []))
        if path is None:
            waiting.pop()
            continue
        try:
            status = os.lstat(os.path.join(root, path))
            if is_left_out(path, status):
                continue
            if stat.S_ISLNK(status.st_mode):
                status = _target(root, path)
            elif stat.S_ISDIR(status.st_mode):
                waiting.append(_inside(root, path, rest))
                continue
        except FileNotFoundError:
            continue  # the entry was deleted meanwhile
        except OSError as error:
            yield WrittenFile(path, None, f"it cannot be read: {error.strerror}")
            continue
        if stat.S_ISREG(status.st_mode):
            yield WrittenFile(path, status, "")


def _inside(root: bytes, folder: bytes, beyond: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    """Return the sorted entries of a folder that come after the path `beyond`.

    The second element of each pair is the rest of `beyond`, which applies inside that entry.
    """
    first = beyond[0] if beyond else b""
    kept: list[tuple[bytes, list[bytes]]] = []
    for name in os.listdir(os.path.join(root, folder)):
        if name > first:
            kept.append((name, []))
        elif name == first and len(beyond) > 1:
            kept.append((name, beyond[1:]))
    kept.sort()
    return ((os.path.join(folder, name), rest) for name, rest in kept)


def _target(root: bytes, path: bytes) -> os.stat_result:
    """Return the file status of the target to which a link leads.

    If the target is outside `root` or is a folder, return the link's own status.
    """
    real = os.path.realpath(os.path.join(root, path))
    if not real.startswith(os.path.realpath(root) + b"/"):
        return os.lstat(os.path.join(root, path))
    status = os.lstat(real)
    # Do not follow links to folders. The files in such a folder are listed under their own paths,
    # and links may form a loop.
    return os.lstat(os.path.join(root, path)) if stat.S_ISDIR(status.st_mode) else status


def _fingerprint(status: os.stat_result) -> tuple[int, ...]:
    """Return values that change when a file is written or replaced."""
    return (
        status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns,
    )  # fmt: skip


def _text(path: bytes) -> str:
    """Return a path as in a manifest."""
    return path.decode("utf-8", "surrogateescape")


def _saved(replica: str, attempt: str) -> Iterator[tuple[int, ...]]:
    records = read_file(os.path.join(replica, attempt, SAVED), _MOST_SAVED) or b""
    return _FINGERPRINT.iter_unpack(records[: len(records) - len(records) % _FINGERPRINT.size])


@functools.lru_cache(maxsize=4)
def _list_code(blobs: str, manifest: str) -> Mapping[str, tuple[str, int]]:
    return {
        path: (content if mode == "l" else "", size)
        for path, mode, content, size, *_ in decode(read_blob(blobs, manifest))
    }

"""Artifacts: the files that programs write to their output folders.

Only this module knows the location of these folders. Programs may leave anything there, so the
store lists only regular files and links to files in the same folder, and never opens a file that
could block, such as a pipe.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from windlass.model.records import OutputFile
from windlass.runtimes.paths import trial_dir
from windlass.worker.common.file_reads import list_folder
from windlass.worker.common.own_attempt import OUTPUTS

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LOOKED_AT = 20_000  # the most files to examine per page, however few of them match


class ArtifactLocation(NamedTuple):
    """A file's location in a trial. Lists are sorted by location."""

    replica: tuple[str, int]  # role and index
    path: bytes


class ArtifactQuery(NamedTuple):
    """Filters for a list of files. A filter that is None matches any file."""

    role: str | None = None
    number: int | None = None  # the replica's index
    pattern: str | None = None

    def matches(self, name: str) -> bool:
        """Return whether a file name equals the pattern or matches it."""
        return self.pattern in (None, name) or fnmatch.fnmatchcase(name, str(self.pattern))


class ArtifactStore:
    """The output files of all trials in a home."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def page(
        self, trial_id: int, query: ArtifactQuery, after: ArtifactLocation | None, limit: int
    ) -> tuple[list[OutputFile], ArtifactLocation | None]:
        """Return a page of a trial's output files that match a query.

        The second element is the location after which the next page starts, or None on the last
        page.
        """
        items: list[OutputFile] = []
        last, looked_at = after, 0
        for location, file in self._files(trial_id, query, after):
            if len(items) == limit or looked_at == _MOST_LOOKED_AT:
                return items, last
            last, looked_at = location, looked_at + 1
            if query.matches(file.name):
                items.append(file)
        return items, None

    def open(self, trial_id: int, location: ArtifactLocation) -> int:
        """Open a file in the output folder for reading.

        Raise `OSError` if it is not a regular file.
        """
        parts = location.path.split(b"/")
        if not all(part not in (b"", b".", b"..") for part in parts) or b"\0" in location.path:
            raise FileNotFoundError(2, "there is no such file")
        trial = os.fsencode(os.path.realpath(trial_dir(self._home, trial_id)))
        role, index = location.replica
        return _open_inside(trial, f"{role}-{index}/{OUTPUTS}".encode(), location.path)

    def _files(
        self, trial_id: int, query: ArtifactQuery, after: ArtifactLocation | None
    ) -> Iterator[tuple[ArtifactLocation, OutputFile]]:
        for replica in self._replicas(trial_id):
            role, index = replica
            if query.role not in (None, role) or query.number not in (None, index):
                continue
            if after is not None and replica < after.replica:
                continue
            beyond = after.path if after is not None and replica == after.replica else b""
            root = os.fsencode(self._folder(trial_id, replica))
            for path, status, problem in _walk(root, beyond):
                yield (
                    ArtifactLocation(replica, path),
                    OutputFile.of(
                        path,
                        role=role,
                        index=index,
                        size=status.st_size if status else 0,
                        modified=status.st_mtime if status else 0.0,
                        problem=problem,
                    ),
                )

    def _replicas(self, trial_id: int) -> list[tuple[str, int]]:
        """Return the role and index of each of a trial's replicas that has an output folder."""
        replicas = []
        for name in list_folder(trial_dir(self._home, trial_id)):
            role, _, index = name.rpartition("-")
            if not role or not (index.isascii() and index.isdecimal() and len(index) <= 6):
                continue
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                replica = (role, int(index))
                folder = self._folder(trial_id, replica)
                if all(stat.S_ISDIR(os.lstat(path).st_mode) for path in (folder.parent, folder)):
                    replicas.append(replica)
        return sorted(replicas)

    def _folder(self, trial_id: int, replica: tuple[str, int]) -> Path:
        role, index = replica
        return trial_dir(self._home, trial_id) / f"{role}-{index}" / OUTPUTS


def _walk(root: bytes, beyond: bytes) -> Iterator[tuple[bytes, os.stat_result | None, str]]:
    """Yield the files below a folder that come after the path `beyond`, sorted by path.

    For an unreadable folder, yield its path and an error message.
    """
    waiting = [_inside(root, b"", beyond.split(b"/") if beyond else [])]
    while waiting:
        path, rest = next(waiting[-1], (None, []))
        if path is None:
            waiting.pop()
            continue
        try:
            status = os.lstat(os.path.join(root, path))
            if stat.S_ISLNK(status.st_mode):
                status = _target(root, path)
            elif stat.S_ISDIR(status.st_mode):
                waiting.append(_inside(root, path, rest))
                continue
        except FileNotFoundError:
            continue  # the entry was deleted meanwhile
        except OSError as error:
            yield path, None, f"it cannot be read: {error.strerror}"
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status, ""


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
    """Return the file status of the target to which a link in an output folder leads.

    If the target is outside `root` or is a folder, return the link's own status.
    """
    real = os.path.realpath(os.path.join(root, path))
    if not real.startswith(os.path.realpath(root) + b"/"):
        return os.lstat(os.path.join(root, path))
    status = os.lstat(real)
    # Do not follow links to folders. The files in such a folder are listed under their own paths,
    # and links may form a loop.
    return os.lstat(os.path.join(root, path)) if stat.S_ISDIR(status.st_mode) else status


def _open_inside(trial: bytes, outputs: bytes, path: bytes) -> int:
    """Open the file to which a path in an output folder resolves.

    Raise an error if a folder in the path is replaced with a link meanwhile.
    """
    real = os.path.realpath(os.path.join(trial, outputs, path))
    if not real.startswith(os.path.join(trial, outputs) + b"/"):
        raise FileNotFoundError(2, "there is no such file")
    *folders, name = real[len(trial) + 1 :].split(b"/")
    fd = os.open(trial, _FOLDER)
    try:
        for folder in folders:
            below = os.open(folder, _FOLDER, dir_fd=fd)
            os.close(fd)
            fd = below
        if not stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
            raise FileNotFoundError(2, "it is not a file")
        file = os.open(name, _READ, dir_fd=fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(os.fstat(file).st_mode):  # the file was replaced meanwhile
        os.close(file)
        raise FileNotFoundError(2, "it is not a file")
    return file

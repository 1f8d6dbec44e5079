"""Artifacts: the files that programs write to their output folders and working folders.

Both folders of a replica appear as one. If a file exists in both, the store lists the file in the
output folder. Programs may leave anything there, so the store lists only regular files and links to
files in the same folder, and never opens a file that could block, such as a pipe.
"""

from __future__ import annotations

import contextlib
import fnmatch
import heapq
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from windlass.model.records import OutputFile
from windlass.runtimes.paths import trial_dir
from windlass.worker.blobs.written_files import WORK, LeftOut, WrittenFile, is_ignored, walk
from windlass.worker.common.file_reads import list_folder
from windlass.worker.common.own_attempt import OUTPUTS

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_LOOKED_AT = 20_000  # the most files to examine per page, however few of them match


class ArtifactLocation(NamedTuple):
    """An output file's location in a trial. Lists are sorted by location."""

    replica: tuple[str, int]  # role and index
    path: bytes


class ArtifactQuery(NamedTuple):
    """Filters for a list of output files. A filter that is None matches any file."""

    role: str | None = None
    number: int | None = None  # the replica's index
    pattern: str | None = None

    def matches(self, name: str) -> bool:
        """Return whether an output file's name equals the pattern or matches it."""
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
        """Open a file in the output folder or working folder for reading.

        Raise `OSError` if it is not a regular file.
        """
        parts = location.path.split(b"/")
        if not all(part not in (b"", b".", b"..") for part in parts) or b"\0" in location.path:
            raise _no_file()
        trial = os.fsencode(os.path.realpath(trial_dir(self._home, trial_id)))
        role, index = location.replica
        try:
            return _open_inside(trial, f"{role}-{index}/{OUTPUTS}".encode(), location.path)
        except FileNotFoundError:
            if any(map(is_ignored, parts)):
                raise
        try:
            return _open_inside(trial, f"{role}-{index}/{WORK}".encode(), location.path)
        except FileNotFoundError:
            raise _no_file() from None

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
            for path, status, problem in _written(self._folder(trial_id, replica), beyond):
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
        """Return the role and index of each of a trial's replicas that has a folder."""
        replicas = []
        for name in list_folder(trial_dir(self._home, trial_id)):
            role, _, index = name.rpartition("-")
            if not role or not (index.isascii() and index.isdecimal() and len(index) <= 6):
                continue
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                replica = (role, int(index))
                if stat.S_ISDIR(os.lstat(self._folder(trial_id, replica)).st_mode):
                    replicas.append(replica)
        return sorted(replicas)

    def _folder(self, trial_id: int, replica: tuple[str, int]) -> Path:
        role, index = replica
        return trial_dir(self._home, trial_id) / f"{role}-{index}"


def _written(replica: Path, beyond: bytes) -> Iterator[WrittenFile]:
    """Yield the files in a replica's output folder and working folder, sorted by path."""
    in_order = heapq.merge(
        _walk(replica / OUTPUTS, beyond),
        _walk(replica / WORK, beyond, LeftOut(str(replica))),
        key=lambda file: file.path.split(b"/"),
    )
    last = None
    for file in in_order:
        if file.path != last:  # the output folder comes first
            yield file
        last = file.path


def _walk(folder: Path, beyond: bytes, *is_left_out: LeftOut) -> Iterator[WrittenFile]:
    """Walk a folder unless a program has replaced it with a link."""
    if folder.is_symlink():
        return iter(())
    return walk(os.fsencode(folder), beyond, *is_left_out)


def _open_inside(trial: bytes, outputs: bytes, path: bytes) -> int:
    """Open the file to which a path in an output folder resolves.

    Raise an error if a folder in the path is replaced with a link meanwhile.
    """
    real = os.path.realpath(os.path.join(trial, outputs, path))
    if not real.startswith(os.path.join(trial, outputs) + b"/"):
        raise _no_file()
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


def _no_file() -> FileNotFoundError:
    return FileNotFoundError(2, "there is no such file")

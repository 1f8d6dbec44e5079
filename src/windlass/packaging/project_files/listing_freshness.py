"""Checks whether the last listing of a tree's files is still valid.

This check is much faster than listing all files again.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from windlass.packaging.project_files.file_listing import (
    IGNORED_LIMIT,
    FileListing,
    Folder,
    fingerprint,
    keeps_folder_times,
    scan_again,
)
from windlass.packaging.project_files.git import (
    GitCall,
    git_directory,
    tracked_ignored,
    tracks_none_of,
    which_are_ignored,
)
from windlass.packaging.project_files.ignore import ALWAYS_IGNORED, ALWAYS_IGNORED_ENDINGS
from windlass.packaging.project_files.stat_cache import UNTRUSTED

_RULE_FILES = frozenset((".gitignore", ".windlassignore", ".git"))
_FEW = 100

# Nanoseconds. Kernels take file times from a clock that ticks every few milliseconds, and old file
# systems round them to seconds.
_TICK = 100_000_000
_COARSE_TICK = 2_100_000_000


def is_recent(modified: int, changed: int, looked: int) -> bool:
    """Return True if a file changed so recently that a further change might keep its times.

    `looked` is when the times were read, in nanoseconds.

    >>> is_recent(1_000_000_001, 1_000_000_001, looked=1_050_000_000)
    True
    >>> is_recent(1_000_000_001, 1_000_000_001, looked=1_500_000_000)
    False
    """
    tick = _TICK if changed % 1_000_000 else _COARSE_TICK
    return max(modified, changed) >= looked - tick


def distrust_recent(listing: FileListing, looked: int) -> FileListing:
    """Return a listing in which recently changed folders and ignore files do not count as known.

    The next comparison checks them again.
    """
    return listing._replace(
        folders=[_dated(folder, looked) for folder in listing.folders],
        rules=[
            (
                rule,
                (-1, -1, -1, -1)
                if recorded and is_recent(recorded[1], recorded[2], looked)
                else recorded,
            )
            for rule, recorded in listing.rules
        ],
    )


def forget_folders(listing: FileListing, prefix: str, files: Collection[str]) -> FileListing:
    """Return a listing in which the folders of some files are marked to be checked again.

    These files exist but are not packaged, for example dangling links. They may become valid later
    without any change to their folder.
    """
    if not files:
        return listing
    forgotten = {os.path.join(os.path.dirname(file), "")[len(prefix) :] for file in files}
    return listing._replace(
        folders=[
            (folder[0], UNTRUSTED, *folder[2:4], bytes(16)) if folder[0] in forgotten else folder
            for folder in listing.folders
        ]
    )


class StillListed(NamedTuple):
    """A listing that still seems valid after a first check.

    `settle` completes the check with git.
    """

    listing: FileListing
    answers: tuple[Callable[[], bool], ...]
    candidates: list[str]  # the absolute paths of new names
    ignored: Callable[[], set[str] | None]
    cut: int  # the root path's length, including the slash

    def settle(self) -> tuple[FileListing, list[str]] | None:
        """Complete the check with git. Return the valid listing and the new files.

        Return None if the tree must be listed again.
        """
        if not all(answer() for answer in self.answers):
            return None
        if not self.candidates:
            return self.listing, []
        ignored = self.ignored()
        if ignored is None:
            return None
        added = [path for path in self.candidates if path not in ignored]
        if any(os.path.isdir(path) and not os.path.islink(path) for path in added):
            return None
        return _with_ignored(self.listing, [path[self.cut :] for path in ignored]), added


def compare_listing(
    old: FileListing, files: Sequence[str], root: str, *, is_repository: bool, looked: int
) -> StillListed | None:
    """Compare the last listing with the tree.

    Return None if the tree must be listed again. `files` are the listing's sorted absolute paths.
    If git is necessary, it runs in the background until the caller calls `settle`.
    """
    if not old.folders:
        return None
    try:
        device = os.lstat(root).st_dev
    except OSError:
        return None
    if not keeps_folder_times(root, device):
        return None
    if any(fingerprint(rule) != recorded for rule, recorded in old.rules):
        return None
    answers: list[Callable[[], bool]] = []
    index = old.git_index
    if is_repository:
        index = fingerprint(os.path.join(git_directory(root), "index"))
        # A change to git's index matters only if it concerns files that are tracked but ignored.
        if index != old.git_index and not _still_tracks_nothing_ignored(root, old):
            call = tracked_ignored(root)
            answers.append(lambda: (call.output() or b"") == old.tracked_ignored)
    compared = _Folders(root, old, files, device, looked)
    folders = compared.compare()
    if folders is None:
        return None
    candidates = compared.candidates
    has_own_rules = any(rule.endswith("/.windlassignore") for rule, _ in old.rules)
    if candidates and (not is_repository or has_own_rules or len(candidates) > _FEW):
        return None
    listing = old
    if folders is not old.folders or index != old.git_index:
        listing = old._replace(folders=folders, git_index=index)
    cut = len(os.path.join(root, ""))
    return StillListed(
        listing, tuple(answers), candidates, _start_ignore_check(root, candidates), cut
    )


def _with_ignored(listing: FileListing, paths: list[str]) -> FileListing:
    if not paths or listing.ignored is None:
        return listing
    ignored = (*listing.ignored, *paths)
    return listing._replace(ignored=ignored if len(ignored) <= IGNORED_LIMIT else None)


def _still_tracks_nothing_ignored(root: str, old: FileListing) -> bool:
    return not old.tracked_ignored and old.ignored is not None and tracks_none_of(root, old.ignored)


def _start_ignore_check(root: str, candidates: list[str]) -> Callable[[], set[str] | None]:
    if not candidates:
        return lambda: set()
    prefix = os.path.join(root, "")
    call: GitCall = which_are_ignored(root, [path.removeprefix(prefix) for path in candidates])

    def ignored() -> set[str] | None:
        output = call.output()
        if output is None:
            return None
        return {prefix + os.fsdecode(path) for path in output.split(b"\0") if path}

    return ignored


class _Folders:
    def __init__(
        self, root: str, old: FileListing, files: Sequence[str], device: int, looked: int
    ) -> None:
        self._prefix = os.path.join(root, "")
        self._old = old.folders
        self._files = files
        self._device = device
        self._looked = looked
        self._folder_paths: set[str] = set()
        self.candidates: list[str] = []

    def compare(self) -> list[Folder] | None:
        prefix, device, lstat = self._prefix, self._device, os.lstat
        fresh: dict[int, Folder] = {}
        for row, (path, modified, changed, inode, _) in enumerate(self._old):
            try:
                status = lstat(prefix + path)
            except OSError:
                return None
            if (
                status.st_mtime_ns != modified
                or status.st_ctime_ns != changed
                or status.st_ino != inode
                or status.st_dev != device
            ):
                folder = self._again(self._old[row])
                if folder is None:
                    return None
                fresh[row] = folder
        if not fresh:
            return self._old
        return [fresh.get(row, folder) for row, folder in enumerate(self._old)]

    def _again(self, old: Folder) -> Folder | None:
        path = old[0]
        entries, folder = scan_again(self._prefix + path, path)
        if folder[4] != old[4]:
            self._folder_paths = self._folder_paths or {folder[0] for folder in self._old}
            for entry in entries:
                if not self._take_in(path + entry.name, entry):
                    return None
        return _dated(folder, self._looked)

    def _take_in(self, path: str, entry: os.DirEntry[str]) -> bool:
        """Record a new file in a folder of the listing.

        Return False if the tree must be listed again.
        """
        name, full = entry.name, self._prefix + path
        if name in _RULE_FILES:
            return path == ".git" or (name != ".git" and self._has(full))
        if name in ALWAYS_IGNORED or name.endswith(ALWAYS_IGNORED_ENDINGS):
            return True
        if entry.is_dir(follow_symlinks=False):
            is_new = path + "/" not in self._folder_paths
        else:
            is_plain = entry.is_file(follow_symlinks=False) or entry.is_symlink()
            is_new = is_plain and not self._has(full)
        if is_new:
            self.candidates.append(full)
        return True

    def _has(self, full: str) -> bool:
        row = bisect_left(self._files, full)
        return row < len(self._files) and self._files[row] == full


def _dated(folder: Folder, looked: int) -> Folder:
    path, modified, changed, inode, names = folder
    if is_recent(modified, changed, looked):
        return (path, UNTRUSTED, changed, inode, names)
    return folder

"""Lists a tree's files, and records the state that this list depends on."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

from windlass.model.errors import SnapshotError
from windlass.packaging.project_files.git import (
    GitStatus,
    git_directory,
    rule_files,
    tracked_ignored,
)
from windlass.packaging.project_files.ignore import (
    ALWAYS_IGNORED,
    ALWAYS_IGNORED_ENDINGS,
    Patterns,
    any_reaches_into,
    find_verdict,
)

# The walk ends after this many files. The snapshot's limits then reject the tree.
WALK_LIMIT = 200_000

# The maximum number of ignored paths to search git's index for. For more, a git command is as fast.
IGNORED_LIMIT = 100

_OF_A_HOME = frozenset({"token", "server.lock", "windlass.db"})

_Scopes = tuple[tuple[int, Patterns], ...]
_Print = tuple[int, int, int, int]  # a file's size, mtime, ctime, inode

_LOCAL_FILE_SYSTEMS = frozenset(
    ("ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "tmpfs", "overlay")
)


# A listed folder: its path, mtime, ctime and inode, and a digest of the names in it. A tuple is
# faster than a class, and there may be many folders.
Folder = tuple[str, int, int, int, bytes]


class FileListing(NamedTuple):
    """A tree's files as sorted absolute paths, and the state that this list depends on."""

    files: list[str]
    folders: list[Folder]
    rules: list[tuple[str, _Print | None]]
    git_index: _Print | None = None  # the state of git's index
    tracked_ignored: bytes = b""  # paths that git tracks although they are ignored
    ignored: tuple[str, ...] | None = None  # existing paths that git ignores; None if too many
    is_all_of_git: bool = False  # True if these are the only files that git can report as dirty


class Selection(NamedTuple):
    """Limits a listing to some of a folder's files.

    If `only` is set, no other files and folders are listed. Git's rules do not apply below the
    paths in `kept`. The listing ends soon after `limit` files.
    """

    only: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    limit: int | None = None

    def keeps(self, path: str) -> bool:
        """Return whether a path is packaged even if git ignores it."""
        return any(kept in (".", path) or path.startswith(f"{kept}/") for kept in self.kept)

    def leaves_out(self, path: str) -> bool:
        """Return whether a path is not listed."""
        return bool(self.only) and not any(
            path == only or path.startswith(f"{only}/") or only.startswith(f"{path}/")
            for only in self.only
        )

    def reaches_into(self, folder: str) -> bool:
        """Return whether a kept path lies inside a folder."""
        return any(kept.startswith(f"{folder}/") for kept in self.kept)


class _Step(NamedTuple):
    path: str  # "", or a path ending in a slash
    git_scopes: _Scopes
    our_scopes: _Scopes
    ignored: frozenset[str] | None  # paths that git ignores; None if git cannot list them
    is_ignored: bool  # if True, only paths named in a `!` line are included


def list_tree(
    root: str,
    *,
    is_repository: bool,
    home: str,
    status: GitStatus | None = None,
    selection: Selection = Selection(),  # noqa: B008 - immutable
) -> FileListing:
    """List a tree's files, except ignored ones.

    `home` is the Windlass home, whose files are never listed. `status` is a git command that is
    already running, or None.
    """
    return _Walk(root, home, selection).run(is_repository, status)


class _Walk:
    def __init__(self, root: str, home: str, selection: Selection) -> None:
        self._root = root
        self._selection = selection
        self._prefix = os.path.join(root, "")
        self._home = home
        self._files: list[str] = []
        self._folders: list[Folder] = []
        self._rules: list[str] = []
        self._ignored: list[str] = []
        self._is_all_of_git = True

    def run(self, is_repository: bool, status: GitStatus | None) -> FileListing:
        root = self._root
        index, tracked, ignored = None, b"", None
        if is_repository:
            status = status or GitStatus(root)
            call = tracked_ignored(root)
            index = fingerprint(os.path.join(git_directory(root), "index"))
            ignored = status.ignored()
            tracked = call.output() or b""
            if ignored is not None:
                self._rules += rule_files(root)
        first = _Step("", (), (), None if ignored is None else frozenset(ignored), False)
        rules_at = dict.fromkeys(self._rules)
        prints = {rule: fingerprint(rule) for rule in rules_at}
        stack = [first]
        limit = WALK_LIMIT if self._selection.limit is None else self._selection.limit
        while stack and len(self._files) <= limit:
            stack += self._list_folder(stack.pop(), is_repository)
        rules = [(rule, prints.get(rule) or fingerprint(rule)) for rule in self._rules]
        self._files.sort()
        left_out = None if len(self._ignored) > IGNORED_LIMIT else tuple(self._ignored)
        is_all = self._is_all_of_git and ignored is not None and not tracked
        return FileListing(self._files, self._folders, rules, index, tracked, left_out, is_all)

    def _list_folder(self, step: _Step, is_repository: bool) -> list[_Step]:
        path, git_scopes, our_scopes, ignored, folder_is_ignored = step
        full = self._prefix + path
        entries, folder = _scan(full, path)
        names = {entry.name for entry in entries}
        if path and "pyvenv.cfg" in names:
            self._leave_out_environment(path, ignored)
            return []  # a virtual environment, whatever its name
        if path and names >= _OF_A_HOME:
            self._is_all_of_git = False
            return []  # a different Windlass home, whose token must not be packaged
        self._folders.append(folder)
        if path and ".git" in names and is_repository:
            ignored = self._enter_repository(path, ignored)
        if ".gitignore" in names and ignored is None:
            git_scopes += ((len(path), self._read_patterns(full + ".gitignore")),)
        elif ".gitignore" in names:
            self._rules.append(full + ".gitignore")
        if ".windlassignore" in names:
            self._is_all_of_git = False
            our_scopes += ((len(path), self._read_patterns(full + ".windlassignore")),)

        steps: list[_Step] = []
        files, prefix = self._files, self._prefix
        for entry in entries:
            name = entry.name
            if name in ALWAYS_IGNORED or name.endswith(ALWAYS_IGNORED_ENDINGS):
                continue
            here = path + name
            if self._selection.leaves_out(here):
                continue
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and prefix + here == self._home:
                self._is_all_of_git = False
                continue
            is_ignored = find_verdict(our_scopes, here, is_folder) if our_scopes else None
            is_ignored_by_git = ignored is not None and here in ignored
            if is_ignored_by_git:
                self._ignored.append(here)
            if is_ignored is None:
                is_ignored = (
                    folder_is_ignored
                    or is_ignored_by_git
                    or (find_verdict(git_scopes, here, is_folder) is True if git_scopes else False)
                ) and not self._selection.keeps(here)
            if is_folder:
                is_searched = not is_ignored or self._selection.reaches_into(here)
                if is_searched or any_reaches_into(our_scopes, here):
                    steps.append(_Step(here + "/", git_scopes, our_scopes, ignored, is_ignored))
            elif not is_ignored and (entry.is_file(follow_symlinks=False) or entry.is_symlink()):
                files.append(prefix + here)
        return steps

    def _enter_repository(self, path: str, ignored: frozenset[str] | None) -> frozenset[str] | None:
        """Return all paths that git ignores, including the ignored paths in a nested repository.

        `ignored` contains the paths of the outer repository. Return None if git fails.
        """
        self._is_all_of_git = False
        folder = self._prefix + path.rstrip("/")
        inner = GitStatus(folder).ignored()
        if inner is None:
            return None
        self._rules.append(os.path.join(git_directory(folder), "index"))
        self._rules += rule_files(folder)
        return (ignored or frozenset()) | {path + name for name in inner}

    def _leave_out_environment(self, path: str, ignored: frozenset[str] | None) -> None:
        """Leave out a virtual environment.

        Also record whether git may report the environment's files as new, which depends on the
        environment's own `.gitignore` file.
        """
        if ignored is None or path + "pyvenv.cfg" not in ignored:
            self._is_all_of_git = False
        else:
            self._rules.append(self._prefix + path + ".gitignore")

    def _read_patterns(self, file: str) -> Patterns:
        self._rules.append(file)
        try:
            with open(file, encoding="utf-8", errors="surrogateescape") as opened:
                return Patterns(opened.read())
        except FileNotFoundError:
            return Patterns("")
        except OSError as error:
            raise SnapshotError(
                f"{file} cannot be read: {error.strerror}.",
                hint="Make it readable (chmod u+r), or remove it.",
            ) from error


def scan_again(full: str, path: str) -> tuple[list[os.DirEntry[str]], Folder]:
    """List a folder again, for comparison with an earlier listing."""
    return _scan(full, path)


def fingerprint(file: str) -> _Print | None:
    """Return a file's size, times and inode, or None if it does not exist."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@functools.lru_cache(maxsize=64)  # a newly mounted file system has a different device number
def keeps_folder_times(root: str, device: int) -> bool:
    """Return whether adding a file to a folder always changes the folder's times.

    POSIX requires this, and local file systems comply. Some network and FUSE file systems do not.
    """
    if sys.platform == "darwin":
        return any(_device(volume) == device for volume in ("/", "/System/Volumes/Data"))
    try:
        with open("/proc/self/mountinfo", "rb") as file:
            mounts = file.read().splitlines()
    except OSError:
        return False
    best, kind = -1, ""
    for mount in mounts:
        where, _, rest = mount.partition(b" - ")
        point = os.fsdecode(where.split(b" ")[4].decode("unicode_escape").encode("latin-1"))
        inside = root == point or root.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, kind = len(point), rest.split(b" ", 1)[0].decode()
    return kind in _LOCAL_FILE_SYSTEMS


def _device(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def _scan(full: str, path: str) -> tuple[list[os.DirEntry[str]], Folder]:
    try:
        # Read the times before the names, so that a change during the listing is noticed the next
        # time.
        before = os.lstat(full)
        with os.scandir(full) as scan:
            entries = list(scan)
    except (FileNotFoundError, NotADirectoryError):
        return [], (path, -1, -1, 0, bytes(16))
    except OSError as error:
        raise SnapshotError(
            f"The folder {full} cannot be read: {error.strerror}.",
            hint="Make it readable (chmod u+rx), or ignore it with a line in .windlassignore:\n"
            f"  /{path}",
        ) from error
    names = _names_digest(entries)
    return entries, (path, before.st_mtime_ns, before.st_ctime_ns, before.st_ino, names)


def _names_digest(entries: Iterable[os.DirEntry[str]]) -> bytes:
    names = sorted(
        f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
        for entry in entries
        if entry.name not in ALWAYS_IGNORED or entry.name == ".git"
    )
    joined = "\0".join(names).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(joined, digest_size=16).digest()

"""Takes snapshots of source trees, which are identified by a digest of their contents.

Nothing is reread in an unchanged tree. If the times of all folders are unchanged, the file names
come from the last snapshot. If a file's size, times, inode and mode are unchanged, its digest comes
from the last snapshot. A file that changed very recently is always reread, as in git, because a
further change might leave its times the same.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from array import array
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import compress
from operator import ne
from pathlib import Path

from windlass.model.errors import SnapshotError
from windlass.packaging.manifest import Entry, encode_entry, tree_digest
from windlass.packaging.project_files import stat_cache
from windlass.packaging.project_files.file_contents import Reader
from windlass.packaging.project_files.file_listing import FileListing, Selection, list_tree
from windlass.packaging.project_files.git import GitStatus, git_settings
from windlass.packaging.project_files.git_cache import GitCache
from windlass.packaging.project_files.limits import Limits, check_limits
from windlass.packaging.project_files.listing_freshness import (
    compare_listing,
    distrust_recent,
    forget_folders,
)
from windlass.packaging.project_files.project_root import Root, loaded_files
from windlass.packaging.project_files.stat_cache import LastSnapshot, StatTable

# With more changes than this, a new manifest is as fast as patching the old one.
_PATCH_LIMIT = 32


class SnapshotChanged(SnapshotError):
    """Raised if a file changed between the snapshot and the upload.

    A new snapshot must be taken.
    """


class Snapshot:
    """A tree's state at one moment: its digest, its manifest, and its files' bytes."""

    def __init__(
        self,
        root: Path,
        tree: str,
        table: StatTable,
        size: int,
        held: dict[str, bytes],
        manifest: bytes | None,
    ) -> None:
        self.root = root
        self.tree = tree
        self.files = len(table.paths)
        self.size = size
        self._table = table
        self._held = held
        self._manifest = manifest
        self._rows: dict[bytes, int] | None = None

    def __repr__(self) -> str:
        return f"Snapshot({self.tree[:12]}, {self.files} files, {self.size} bytes)"

    @property
    def manifest(self) -> bytes:
        """The manifest, which is the snapshot's list of files. Its sha256 is the tree's digest."""
        if self._manifest is None:
            self._manifest = self._table.manifest()
        return self._manifest

    @property
    def entries(self) -> list[Entry]:
        """The manifest entries of all files in the snapshot, sorted by path."""
        return self._table.entries()

    @property
    def outside_links(self) -> list[tuple[str, str]]:
        """The paths and targets of links that lead outside the tree."""
        links = self._table.links.items()
        found = [(self._table.path(row), target) for row, target in links]
        return sorted(link for link in found if link[1].startswith("/"))

    def has_file(self, path: str) -> bool:
        """Return whether the tree has a file with this path, relative to the root."""
        return self._table.has(path)

    def read(self, digest: str) -> bytes:
        """Return the content with this `digest`, either a file in the tree or the manifest.

        Raise `SnapshotChanged` if the file's content has changed.
        """
        if digest == self.tree:
            return self.manifest
        if digest in self._held:
            return self._held[digest]
        path = self._path_of(digest)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise SnapshotChanged(
                f"{path} was read for the snapshot, but can no longer be read: {error.strerror}."
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise SnapshotChanged(
                f"{path} changed while the code was being sent.",
                hint="If a program writes to it, add it to .windlassignore.",
            )
        return data

    def iter_blobs(self, missing: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the blobs whose digests are in `missing`, ending with the snapshot's manifest."""
        requested = dict.fromkeys(missing)
        for digest in requested:
            if digest != self.tree:
                yield digest, self.read(digest)
        if self.tree in requested:
            yield self.tree, self.manifest

    def _path_of(self, digest: str) -> str:
        if self._rows is None:
            digests = bytes(self._table.digests)
            links = self._table.links
            self._rows = {
                digests[32 * row : 32 * row + 32]: row
                for row in range(len(self._table.paths))
                if row not in links
            }
        row = self._rows.get(bytes.fromhex(digest))
        if row is None:
            raise KeyError(digest)
        return self._table.paths[row]


def take_snapshot(
    root: Root,
    cache_dir: Path,
    *,
    status: GitStatus | None = None,
    hold: bool = False,
    limits: Limits | None = None,
) -> Snapshot:
    """Take a snapshot of the files below a root folder.

    `status` is a running git command whose result becomes part of the provenance. With `hold`, the
    bytes of all files stay in memory, which is necessary after `SnapshotChanged`. A tree that
    exceeds the limits raises an error, unless it is unchanged since its last snapshot.

    >>> import tempfile
    >>> from windlass.packaging.project_files.project_root import find_root
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.py").write_text("print('hello')")
    >>> snapshot = take_snapshot(find_root(script=folder / "train.py"), folder / ".cache")
    >>> snapshot.files, snapshot.size
    (1, 14)
    """
    return _Taking(root, cache_dir, status, hold, limits).run()


class _Taking:
    """A snapshot that is being taken."""

    def __init__(
        self,
        root: Root,
        cache_dir: Path,
        status: GitStatus | None,
        hold: bool,
        limits: Limits | None,
    ) -> None:
        self._root = root
        self._limits = limits
        self._path = str(root.path)
        self._prefix = os.path.join(self._path, "")
        self._status = status
        self._home = _windlass_home()
        self._looked = time.time_ns()
        # The listing also depends on git settings in environment variables. They may contain a
        # password, so only their digest is stored.
        depends_on = git_settings() if root.kind == "git" else (root.only, root.kept)
        settings = hashlib.sha256(repr(depends_on).encode()).hexdigest()
        self._conditions = f"2 {root.kind} {os.fsencode(self._home)!r} {settings}"
        self._file = stat_cache.cache_file(str(cache_dir), self._path, root.only)
        self._reader = Reader(self._path, looked=self._looked, hold=hold)

    def run(self) -> Snapshot:
        before = stat_cache.load(self._file, self._path, self._conditions)
        git = _Git(self._status, self._file, self._path, before)
        listed = None if before is None else self._from_last(before)
        if listed is None:
            listed = self._from_walk(before)
        table, listing, stale, gone, is_same_list = listed
        if before and is_same_list and listing is before.listing and not stale and not gone:
            git.is_unchanged(before)
            return Snapshot(self._root.path, before.tree, table, before.total, {}, None)

        git.is_changed()
        self._check_limits(table, stale)
        old_entries: dict[int, Entry] = {}
        left_out: list[str] = []
        for path, status in stale.items():
            row = table.row(path)
            if len(old_entries) <= _PATCH_LIMIT:
                old_entries[row] = table.entry(row)
            if not self._reader.read(table, row, status):
                left_out.append(path)
        gone += left_out
        listing = forget_folders(listing, self._prefix, left_out)
        self._reader.check()
        is_same_list = is_same_list and not gone
        manifest = None
        if before and is_same_list and len(old_entries) <= _PATCH_LIMIT:
            manifest = _patched(before, table, old_entries)
        if manifest is None:
            table = table.changed_by((), gone)
            manifest = table.manifest()
        tree = tree_digest(manifest)
        generation = stat_cache.save(
            self._file, self._path, self._conditions, table, listing, manifest, tree
        )
        git.is_saved(listing, generation)
        return Snapshot(self._root.path, tree, table, table.total(), self._reader.held, manifest)

    def _from_last(self, before: LastSnapshot) -> _Listed | None:
        """Find the tree's files, and those that may have changed, based on the last listing.

        Return None if the tree must be listed again.
        """
        if self._root.kind == "loaded":
            return None
        table = before.table
        still = compare_listing(
            before.listing,
            table.paths,
            self._path,
            is_repository=self._root.kind == "git",
            looked=self._looked,
        )
        if still is None:
            return None
        # Git runs in the meantime. If no folder changed, no file was replaced by another.
        if still.listing.folders is before.listing.folders:
            stale, gone = self._find_written(table)
        else:
            stale, gone = self._find_stale(table)
        settled = still.settle()
        if settled is None:
            return None
        listing, added = settled
        if added:
            table = table.changed_by(added, ())
            for path in added:
                self._list(path, stale, gone)
        return table, listing, stale, gone, not added

    def _from_walk(self, before: LastSnapshot | None) -> _Listed:
        listing = self._walk()
        files = listing.files
        if before is None:
            table, is_same_list = StatTable(self._prefix, files), False
        else:
            is_same_list = before.table.paths == files
            table = before.table if is_same_list else before.table.rearranged(files)
        stale, gone = self._find_stale(table)
        return table, listing, stale, gone, is_same_list

    def _walk(self) -> FileListing:
        if self._root.kind == "loaded":
            return FileListing([self._prefix + file for file in loaded_files(self._root)], [], [])
        listing = list_tree(
            self._path,
            is_repository=self._root.kind == "git",
            home=self._home,
            status=self._status,
            selection=self._selection(),
        )
        return distrust_recent(listing, self._looked)

    def _selection(self) -> Selection:
        if self._root.kind != "package":
            return Selection()
        limit = self._limits.files if self._limits else None
        return Selection(self._root.only, self._root.kept, limit)

    def _find_written(self, table: StatTable) -> tuple[dict[str, os.stat_result], list[str]]:
        """Find the same files as `_find_stale`, but faster, by comparing only each file's ctime.

        The kernel sets the ctime whenever a file's content or mode changes, and no program can set
        it. The caller must check that no file was replaced by another, because some file systems do
        not update the ctime on a rename, and files created together may have the same ctime.
        """
        stale: dict[str, os.stat_result] = {}
        gone: list[str] = []
        lstat = os.lstat
        try:
            # This is the only loop that visits all files on every call, so it must be fast.
            changed = array("q", [lstat(path).st_ctime_ns for path in table.paths])
        except OSError:
            return self._find_stale(table)
        if changed != table.changed:
            for path in compress(table.paths, map(ne, changed, table.changed)):
                self._list(path, stale, gone)
        return stale, gone

    def _find_stale(self, table: StatTable) -> tuple[dict[str, os.stat_result], list[str]]:
        """Find files whose cached digest is outdated, and files that no longer exist."""
        stale: dict[str, os.stat_result] = {}
        gone: list[str] = []
        lstat = os.lstat
        for path, modified, changed, size, inode, mode in zip(
            table.paths,
            table.modified,
            table.changed,
            table.sizes,
            table.inodes,
            table.modes,
            strict=True,
        ):
            try:
                status = lstat(path)
                if (
                    status.st_mtime_ns != modified
                    or status.st_ctime_ns != changed
                    or status.st_size != size
                    or status.st_ino != inode
                    or status.st_mode != mode
                ):
                    stale[path] = status
            except OSError:
                self._list(path, stale, gone)
        return stale, gone

    def _list(self, path: str, stale: dict[str, os.stat_result], gone: list[str]) -> None:
        try:
            stale[path] = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            gone.append(path)
        except OSError as error:
            self._reader.fail(path.removeprefix(self._prefix), error)

    def _check_limits(self, table: StatTable, stale: dict[str, os.stat_result]) -> None:
        """Check that a snapshot's number and sizes of files are within the limits.

        The check comes before any file is read.
        """
        sizes = table.sizes.tolist()
        for row in table.links:
            sizes[row] = 0
        for path, status in stale.items():
            if stat.S_ISREG(status.st_mode):
                sizes[table.row(path)] = status.st_size
        check_limits(self._prefix, table.paths, sizes, sum(sizes), self._limits)


class _Git:
    """Provides a snapshot's git status, and runs git only if the status may have changed."""

    def __init__(
        self, status: GitStatus | None, file: str, root: str, before: LastSnapshot | None
    ) -> None:
        self._status = status
        self._remembered = None
        if status is None:
            return
        # If git started before this moment, its status is not cached, because the next snapshot
        # only detects changes from now on.
        self._starts_git_now = not status.is_begun
        self._memory = GitCache(f"{file}.git", root)
        if before is not None:
            self._remembered = self._memory.recall(before.generation)
        if self._remembered is None:
            status.begin()

    def is_unchanged(self, before: LastSnapshot) -> None:
        if self._status is not None and self._remembered is not None:
            self._status.use_state(self._remembered)
        else:
            self.is_saved(before.listing, before.generation)

    def is_changed(self) -> None:
        if self._status is not None:
            self._status.begin()

    def is_saved(self, listing: FileListing, generation: bytes) -> None:
        if self._status is not None and self._starts_git_now and listing.is_all_of_git:
            self._status.on_state(partial(self._memory.keep, generation))


_Listed = tuple[StatTable, FileListing, dict[str, os.stat_result], list[str], bool]


def _patched(before: LastSnapshot, table: StatTable, old_entries: dict[int, Entry]) -> bytes | None:
    """Build a slightly changed tree's manifest by patching the last manifest.

    Return None if the last manifest is missing or does not match.
    """
    manifest = before.manifest()
    if manifest is None:
        return None
    patched = bytearray(manifest)
    for row, old in old_entries.items():
        new = table.entry(row)
        if new == old:
            continue
        old_bytes = encode_entry(old)
        at = patched.find(old_bytes)
        if at < 0:
            return None
        patched[at : at + len(old_bytes)] = encode_entry(new)
    return bytes(patched)


def _windlass_home() -> str:
    home = os.environ.get("WINDLASS_HOME") or os.path.expanduser("~/.windlass")
    return os.path.realpath(home)

"""The source tree at one moment, by content: what it is, and the bytes to send.

A tree that has not changed is not read again: names are taken from the last listing as long as
no folder's times changed, contents from the last reading as long as size, times, inode and mode
of the file are the same. What changed so recently that a later change could look the same is
read again the next time, as git does.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from windlass.model.errors import SnapshotError
from windlass.packaging import statcache
from windlass.packaging.ignore import quote_path
from windlass.packaging.limits import check_limits
from windlass.packaging.listing import (
    Folder,
    Listing,
    fingerprint,
    keeps_folder_times,
    list_tree,
    scan_again,
)
from windlass.packaging.manifest import (
    Entry,
    encode_entry,
    encode_manifest,
    link_stays_inside,
    tree_digest,
)
from windlass.packaging.repository import GitStatus, git_directory, tracked_ignored
from windlass.packaging.roots import Root, loaded_files
from windlass.packaging.statcache import UNTRUSTED, Table

_TRIES = 5
_CHUNK = 1024 * 1024
# Kernels stamp files by a clock that ticks every few milliseconds.
_TICK = 100_000_000
_COARSE_TICK = 2_100_000_000
# What may be kept in memory for an upload.
_HELD_LIMIT = 64_000_000
_PATCH_LIMIT = 32


class SnapshotChanged(SnapshotError):
    """A file changed between the snapshot and the upload: take the snapshot again."""


class Snapshot:
    """A tree at one moment: its digest, its manifest, and the bytes of its files."""

    def __init__(
        self,
        root: Path,
        tree: str,
        table: Table,
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
        """The canonical list of the files; its sha256 is the tree's digest."""
        if self._manifest is None:
            self._manifest = encode_manifest(self._table.entries())
        return self._manifest

    @property
    def entries(self) -> list[Entry]:
        """The files, in the order of their paths."""
        return self._table.entries()

    def read(self, digest: str) -> bytes:
        """The bytes with that digest: a file's, or the manifest's.

        Raises `SnapshotChanged` when the file has other content by now.
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
                f"{path} could be read for the snapshot, but no more: {error.strerror}."
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise SnapshotChanged(
                f"{path} changed while the code was being sent.",
                hint="If it is written to all the time, add it to .windlassignore.",
            )
        return data

    def iter_blobs(self, missing: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """The bytes of the given digests, one after another; the manifest's come last."""
        asked = dict.fromkeys(missing)
        for digest in asked:
            if digest != self.tree:
                yield digest, self.read(digest)
        if self.tree in asked:
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
    root: Root, cache_dir: Path, *, status: GitStatus | None = None, hold: bool = False
) -> Snapshot:
    """The tree below a root as it is now.

    `status` is a call to git that was started already, as provenance does. With `hold`, what
    has to be read is kept in memory: for the second try, after `SnapshotChanged`.

    >>> import tempfile
    >>> from windlass.packaging.roots import find_root
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.py").write_text("print('hello')")
    >>> snapshot = take_snapshot(find_root(script=folder / "train.py"), folder / ".cache")
    >>> snapshot.files, snapshot.size
    (1, 14)
    """
    return _Taking(root, cache_dir, status, hold).run()


class _Taking:
    """One snapshot on its way."""

    def __init__(self, root: Root, cache_dir: Path, status: GitStatus | None, hold: bool) -> None:
        self._root = root
        self._path = str(root.path)
        self._prefix = os.path.join(self._path, "")
        self._real = os.path.realpath(self._path)
        self._status = status
        self._hold = hold
        self._held: dict[str, bytes] = {}
        self._held_size = 0
        self._home = _windlass_home()
        self._began = time.time_ns()
        self._conditions = f"1 {root.kind} {os.fsencode(self._home)!r}"
        self._file = statcache.cache_file(str(cache_dir), self._path)
        self._faults: list[tuple[str, str]] = []

    def run(self) -> Snapshot:
        before = statcache.load(self._file, self._path, self._conditions)
        listing = None if before is None else self._same_listing(before.listing)
        if before is not None and listing is not None:
            table, is_same_list = before.table, True
        else:
            listing = self._new_listing()
            is_same_list = before is not None and before.table.paths == listing.files
            if before is None:
                table = Table(self._prefix, listing.files)
            else:
                table = before.table if is_same_list else before.table.rearranged(listing.files)
        stale, gone = self._find_stale(table)
        if stale or not is_same_list:
            sizes, total = self._sizes_now(table, stale)
            check_limits(self._prefix, table.paths, sizes, total)
        old_entries = self._read_stale(table, stale, gone)
        if gone:
            table, is_same_list = table.without(gone), False
        if self._faults:
            raise self._refusal()
        manifest, tree = None, ""
        if before is not None and is_same_list:
            manifest, tree = _patched(before, table, old_entries)
        if not tree:
            manifest = encode_manifest(table.entries())
            tree = tree_digest(manifest)
        if before is None or stale or gone or not is_same_list or listing is not before.listing:
            manifest = manifest or (before and before.manifest()) or encode_manifest(table.entries())
            statcache.save(self._file, self._path, self._conditions, table, listing, manifest, tree)
            total = table.total()
        else:
            total = before.total
        return Snapshot(self._root.path, tree, table, total, self._held, manifest)

    def _new_listing(self) -> Listing:
        if self._root.kind == "loaded":
            return Listing([self._prefix + file for file in loaded_files(self._root)], [], [])
        listing = list_tree(
            self._path,
            is_repository=self._root.kind == "git",
            home=self._home,
            status=self._status,
        )
        return listing._replace(folders=[self._dated(folder) for folder in listing.folders])

    def _same_listing(self, old: Listing) -> Listing | None:
        """The listing brought up to date, if the names in the tree are sure to be the same."""
        if self._root.kind == "loaded" or not old.folders:
            return None
        try:
            device = os.lstat(self._path).st_dev
        except OSError:
            return None
        if not keeps_folder_times(self._path, device):
            return None
        if any(fingerprint(rule) != found for rule, found in old.rules):
            return None
        call, index = None, old.git_index
        if self._root.kind == "git":
            index = fingerprint(os.path.join(git_directory(self._path), "index"))
            if index != old.git_index:
                call = tracked_ignored(self._path)
        folders = self._same_folders(old.folders, device)
        if call is not None and (call.output() or b"") != old.tracked_ignored:
            return None
        if folders is None:
            return None
        if folders is old.folders and index == old.git_index:
            return old
        return old._replace(folders=folders, git_index=index)

    def _same_folders(self, old: list[Folder], device: int) -> list[Folder] | None:
        prefix, lstat = self._prefix, os.lstat
        fresh: dict[int, Folder] = {}
        for row, (path, modified, changed, inode, names) in enumerate(old):
            try:
                found = lstat(prefix + path)
            except OSError:
                return None
            if (
                found.st_ctime_ns != changed
                or found.st_mtime_ns != modified
                or found.st_ino != inode
                or found.st_dev != device
            ):
                again = scan_again(prefix + path, path)
                if again[4] != names:
                    return None
                fresh[row] = self._dated(again)
        if not fresh:
            return old
        return [fresh.get(row, folder) for row, folder in enumerate(old)]

    def _dated(self, folder: Folder) -> Folder:
        path, modified, changed, inode, names = folder
        return (
            (path, UNTRUSTED, changed, inode, names)
            if self._is_recent(modified, changed)
            else folder
        )

    def _is_recent(self, modified: int, changed: int) -> bool:
        """Whether a change made after we looked could leave the same times."""
        tick = _TICK if changed % 1_000_000 else _COARSE_TICK
        return max(modified, changed) >= self._began - tick

    def _find_stale(self, table: Table) -> tuple[dict[int, os.stat_result], set[int]]:
        """The files of which what is known is not, or may not be, true any more."""
        stale: dict[int, os.stat_result] = {}
        gone: set[int] = set()
        lstat = os.lstat
        row = 0
        # The one loop that runs over all files each time: nothing in it but what must be.
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
                found = lstat(path)
                if (
                    found.st_mtime_ns != modified
                    or found.st_ctime_ns != changed
                    or found.st_size != size
                    or found.st_ino != inode
                    or found.st_mode != mode
                ):
                    stale[row] = found
            except OSError as error:
                gone.add(row)
                if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                    self._faults.append((table.path(row), str(error.strerror)))
            row += 1  # noqa: SIM113 - enumerate would cost a tuple a file
        return stale, gone

    def _sizes_now(self, table: Table, stale: dict[int, os.stat_result]) -> tuple[list[int], int]:
        sizes = table.sizes.tolist()
        for row in table.links:
            sizes[row] = 0
        for row, found in stale.items():
            if stat.S_ISREG(found.st_mode):
                sizes[row] = found.st_size
        return sizes, sum(sizes)

    def _read_stale(
        self, table: Table, stale: dict[int, os.stat_result], gone: set[int]
    ) -> dict[int, Entry]:
        """Read what changed; the answer is what those files were before."""
        old_entries: dict[int, Entry] = {}
        for row, found in stale.items():
            if len(old_entries) <= _PATCH_LIMIT:
                old_entries[row] = table.entry(row)
            table.links.pop(row, None)
            if stat.S_ISREG(found.st_mode):
                is_there = self._read_file(table, row, os.O_NOFOLLOW)
            elif stat.S_ISLNK(found.st_mode):
                is_there = self._read_link(table, row, found)
            else:
                is_there = False
            if not is_there:
                gone.add(row)
        return old_entries

    def _read_file(self, table: Table, row: int, flags: int) -> bool:
        path = table.paths[row]
        try:
            digest, size, found, data = _read(path, flags, self._hold)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._faults.append((table.path(row), str(error.strerror)))
            return True
        if found is None:
            return False
        is_settled = data is None or self._hold
        if data is not None and (not is_settled or self._held_size + size <= _HELD_LIMIT):
            self._held[digest.hex()] = data
            self._held_size += size
        table.digests[32 * row : 32 * row + 32] = digest
        table.sizes[row] = size
        table.modes[row] = found.st_mode
        table.changed[row] = found.st_ctime_ns
        table.inodes[row] = found.st_ino
        is_trusted = (
            is_settled
            and flags & os.O_NOFOLLOW
            and size == found.st_size
            and not self._is_recent(found.st_mtime_ns, found.st_ctime_ns)
        )
        table.modified[row] = found.st_mtime_ns if is_trusted else UNTRUSTED
        return True

    def _read_link(self, table: Table, row: int, found: os.stat_result) -> bool:
        path = table.path(row)
        try:
            target = os.readlink(self._prefix + path)
        except OSError:
            return False
        inside = self._inside_target(path, target)
        if inside is None:
            pointed = self._prefix + path
            if os.path.isdir(pointed):
                self._faults.append((path, f"it is a link to the folder {target}, outside"))
                return True
            # A link to a file elsewhere travels as that file; one to nothing does not travel.
            return os.path.isfile(pointed) and self._read_file(table, row, 0)
        table.links[row] = inside
        table.digests[32 * row : 32 * row + 32] = bytes(32)
        table.sizes[row] = found.st_size
        table.modes[row] = found.st_mode
        table.changed[row] = found.st_ctime_ns
        table.inodes[row] = found.st_ino
        is_recent = self._is_recent(found.st_mtime_ns, found.st_ctime_ns)
        table.modified[row] = UNTRUSTED if is_recent else found.st_mtime_ns
        return True

    def _inside_target(self, path: str, target: str) -> str | None:
        """The target as the tree may hold it, or nothing if it lies outside."""
        if link_stays_inside(path, target):
            return target
        folder = os.path.join(self._real, os.path.dirname(path))
        pointed = os.path.normpath(os.path.join(self._prefix, os.path.dirname(path), target))
        for base in (self._path, self._real):
            if pointed == base or pointed.startswith(base.rstrip("/") + "/"):
                relative = os.path.relpath(pointed, os.path.join(base, os.path.dirname(path)))
                return relative if link_stays_inside(path, relative) else None
        resolved = os.path.realpath(os.path.join(folder, target))
        if resolved == self._real or resolved.startswith(self._real.rstrip("/") + "/"):
            relative = os.path.relpath(resolved, folder)
            return relative if link_stays_inside(path, relative) else None
        return None

    def _refusal(self) -> SnapshotError:
        faults = sorted(self._faults)
        shown = [f"{_printable(path)}: {why}" for path, why in faults[:10]]
        lines = [f"  {_printable(quote_path(path))}" for path, _ in faults[:10]]
        if len(faults) > 10:
            shown.append(f"... and {len(faults) - 10} more")
        return SnapshotError(
            f"{len(faults)} of the files in {self._path} cannot be packaged."
            if len(faults) > 1
            else f"{_printable(faults[0][0])} in {self._path} cannot be packaged: {faults[0][1]}.",
            hint="\n".join(
                [
                    *(shown if len(faults) > 1 else ()),
                    "Make them readable (chmod u+r), or ignore them with lines in .windlassignore:",
                    *lines,
                ]
            ),
        )


def _read(
    path: str, flags: int, hold: bool
) -> tuple[bytes, int, os.stat_result | None, bytes | None]:
    """A file's sha256 and size, what it was meanwhile, and its bytes if they must be kept.

    A file that is being written to is read again; if it never keeps still, the bytes of the last
    reading are kept, so that what is sent later is what was digested.
    """
    for attempt in range(_TRIES):
        keep = hold or attempt == _TRIES - 1
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return b"", 0, None, None
            data = os.read(descriptor, min(before.st_size + 1, _CHUNK))
            if len(data) == before.st_size:
                digest, size, kept = hashlib.sha256(data).digest(), len(data), data
            else:
                digest, size, kept = _read_on(descriptor, data, keep)
            after = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        is_stable = (
            size == after.st_size == before.st_size
            and before.st_mtime_ns == after.st_mtime_ns
            and before.st_ctime_ns == after.st_ctime_ns
        )
        if is_stable:
            return digest, size, after, kept if hold else None
    return digest, size, after, kept


def _read_on(descriptor: int, data: bytes, keep: bool) -> tuple[bytes, int, bytes]:
    summed = hashlib.sha256()
    parts = []
    size = 0
    while data:
        summed.update(data)
        size += len(data)
        if keep:
            parts.append(data)
        data = os.read(descriptor, _CHUNK)
    return summed.digest(), size, b"".join(parts)


def _patched(
    before: statcache.Remembered, table: Table, old_entries: dict[int, Entry]
) -> tuple[bytes | None, str]:
    """The manifest and digest of a tree in which few files changed, from those before."""
    if len(old_entries) > _PATCH_LIMIT:
        return None, ""
    changed = {row: table.entry(row) for row in old_entries}
    if all(changed[row] == old for row, old in old_entries.items()):
        return None, before.tree
    manifest = before.manifest()
    if manifest is None:
        return None, ""
    for row, old in old_entries.items():
        old_bytes = encode_entry(old)
        if manifest.count(old_bytes) != 1:
            return None, ""
        manifest = manifest.replace(old_bytes, encode_entry(changed[row]))
    return manifest, tree_digest(manifest)


def _windlass_home() -> str:
    home = os.environ.get("WINDLASS_HOME") or os.path.expanduser("~/.windlass")
    return os.path.realpath(home)


def _printable(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\n", "?")

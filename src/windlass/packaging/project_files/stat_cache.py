"""Caches a tree's last snapshot, so that unchanged files need not be reread.

Each root has one cache file, which may be deleted, damaged or written by two processes at any time.
It is replaced atomically and checked when it is read. Invalid content is ignored.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from windlass.model.thread_safe_types import learned
from windlass.packaging.cache_files import write_cache
from windlass.packaging.manifest import EXECUTABLE, FILE, LINK, Entry, encode_sorted
from windlass.packaging.project_files.file_listing import FileListing
from windlass.worker.common.file_reads import regular_only

_MAGIC = b"windlass tree 3\n"
_HEADER = len(_MAGIC) + 4 + 8  # followed by the body's checksum and length

# This is not a valid file time, so a file with this time is always reread.
UNTRUSTED = -1


class StatTable:
    """A tree's files as a table, sorted by path. Each column is an array.

    Paths are absolute, because every snapshot checks all files but rarely returns their paths.
    """

    __slots__ = (
        "changed", "digests", "inodes", "links", "modes", "modified", "paths", "prefix", "sizes",
    )  # fmt: skip

    def __init__(self, prefix: str, paths: list[str]) -> None:
        count = len(paths)
        self.prefix = prefix  # the root, with a slash
        self.paths = paths
        self.modified = array("q", [UNTRUSTED]) * count
        self.changed = array("q", [UNTRUSTED]) * count
        self.sizes = array("q", bytes(8 * count))
        self.inodes = array("Q", bytes(8 * count))
        self.modes = array("q", bytes(8 * count))
        self.digests = bytearray(32 * count)
        self.links: dict[int, str] = {}

    def entry(self, row: int) -> Entry:
        """Return the manifest entry for the file in a row of the table."""
        path = self.path(row)
        if row in self.links:
            return Entry(path, LINK, self.links[row], 0)
        mode = EXECUTABLE if self.modes[row] & 0o100 else FILE
        digest = self.digests[32 * row : 32 * row + 32].hex()
        return Entry(path, mode, digest, self.sizes[row])

    def path(self, row: int) -> str:
        """Return the path of the file in a row of the table, relative to the root."""
        return self.paths[row][len(self.prefix) :]

    def entries(self) -> list[Entry]:
        """Return the manifest entries of all files."""
        hexes, cut = self.digests.hex(), len(self.prefix)
        entries = [
            Entry(path[cut:], EXECUTABLE if mode & 0o100 else FILE, hexes[at : at + 64], size)
            for path, mode, size, at in zip(
                self.paths, self.modes, self.sizes, range(0, len(hexes), 64), strict=True
            )
        ]
        for row, target in self.links.items():
            entries[row] = Entry(self.path(row), LINK, target, 0)
        return entries

    def manifest(self) -> bytes:
        """Return the manifest of all files."""
        hexes, cut = self.digests.hex(), len(self.prefix)
        rows: list[tuple[str, str, str, int]] = list(
            zip(
                [path[cut:] for path in self.paths],
                [EXECUTABLE if mode & 0o100 else FILE for mode in self.modes],
                [hexes[at : at + 64] for at in range(0, len(hexes), 64)],
                self.sizes,
                strict=True,
            )
        )
        for row, target in self.links.items():
            rows[row] = (rows[row][0], LINK, target, 0)
        return encode_sorted(rows)

    def total(self) -> int:
        """Return the total size of all files in bytes."""
        return sum(self.sizes) - sum(self.sizes[row] for row in self.links)

    def row(self, path: str) -> int:
        """Return the number of the table row for the file at this path."""
        return bisect_left(self.paths, path)

    def has(self, path: str) -> bool:
        """Return whether the table has a file at this path, relative to the root."""
        row = self.row(self.prefix + path)
        return row < len(self.paths) and self.paths[row] == self.prefix + path

    def rearranged(self, paths: list[str]) -> StatTable:
        """Return a table of the files at `paths`.

        Files that are not in this table have no data yet.
        """
        table = StatTable(self.prefix, paths)
        row_by_path = {path: row for row, path in enumerate(self.paths)}
        rows = [row_by_path.get(path, -1) for path in paths]
        # New files use row -1, which is the appended row without data.
        unknown = StatTable(self.prefix, [""])
        for name in ("modified", "changed", "sizes", "inodes", "modes"):
            column = getattr(self, name) + getattr(unknown, name)
            setattr(table, name, array(column.typecode, map(column.__getitem__, rows)))
        old = bytes(self.digests) + bytes(32)
        digests = [old[at : at + 32] for at in range(0, len(old), 32)]
        table.digests = bytearray().join(map(digests.__getitem__, rows))
        if self.links:
            at = {path: row for row, path in enumerate(paths)}
            links = ((at.get(self.paths[row]), target) for row, target in self.links.items())
            table.links = {row: target for row, target in links if row is not None}
        return table

    def changed_by(self, added: Collection[str], removed: Collection[str]) -> StatTable:
        """Add some files to the table and remove others.

        Return this table or a new one.
        """
        if not added and not removed:
            return self
        if self.links or len(added) + len(removed) > 50:
            return self.rearranged(sorted({*self.paths, *added} - set(removed)))
        columns = (self.modified, self.changed, self.sizes, self.inodes, self.modes)
        for path in removed:
            row = self.row(path)
            del self.paths[row], self.digests[32 * row : 32 * row + 32]
            for column in columns:
                del column[row]
        for path in added:
            row = self.row(path)
            self.paths.insert(row, path)
            self.digests[32 * row : 32 * row] = bytes(32)
            for column in columns:
                column.insert(row, 0)
            self.modified[row] = self.changed[row] = UNTRUSTED
        return self


class LastSnapshot(NamedTuple):
    """A root's last snapshot, as loaded from the cache."""

    table: StatTable
    listing: FileListing
    tree: str
    total: int  # the total size of all files in bytes
    file: str
    generation: bytes  # a random identifier of this snapshot

    def manifest(self) -> bytes | None:
        """Return the last snapshot's manifest.

        Return None if the cache file was replaced or damaged.
        """
        try:
            with open(self.file, "rb", opener=regular_only) as file:
                header = file.read(_HEADER)
                file.seek(_HEADER + int.from_bytes(header[-8:], "big"))
                manifest = file.read()
        except (OSError, OverflowError):
            return None
        return manifest if hashlib.sha256(manifest).hexdigest() == self.tree else None


_Bytes = memoryview  # decoded without a copy


class _Stored(msgspec.Struct, array_like=True):
    root: str
    conditions: str
    tree: str
    total: int
    paths: bytes
    columns: tuple[_Bytes, _Bytes, _Bytes, _Bytes, _Bytes]
    digests: _Bytes
    links: dict[int, bytes]
    folders: bytes
    folder_columns: tuple[_Bytes, _Bytes, _Bytes]
    folder_names: bytes
    rules: list[tuple[bytes, tuple[int, int, int, int] | None]]
    index: tuple[int, int, int, int] | None
    tracked_ignored: bytes
    ignored: list[bytes] | None
    is_all_of_git: bool
    generation: bytes


def cache_file(cache_dir: str, root: str, only: Sequence[str] = ()) -> str:
    """Return the path of a root's cache file. `only` has the names to which a snapshot is limited.

    Several packages may be imported from the same folder.
    """
    key = hashlib.sha256(b"\0".join(map(os.fsencode, (root, *only)))).hexdigest()[:32]
    return os.path.join(cache_dir, "trees", key)


def load(file: str, root: str, conditions: str) -> LastSnapshot | None:
    """Load a root's cached snapshot, or return None if there is no valid snapshot."""
    try:
        with open(file, "rb", opener=regular_only) as opened:
            header = opened.read(_HEADER)
            if len(header) != _HEADER or not header.startswith(_MAGIC):
                return None
            body = opened.read(int.from_bytes(header[-8:], "big"))
        if zlib.crc32(body) != int.from_bytes(header[-12:-8], "big"):
            return None
        stored = msgspec.msgpack.decode(body, type=learned(_Stored))
        if stored.root != _text(root) or stored.conditions != conditions:
            return None
        return _remembered(stored, root, file)
    except (OSError, OverflowError, MemoryError, ValueError, msgspec.MsgspecError):
        return None


def save(
    file: str,
    root: str,
    conditions: str,
    table: StatTable,
    listing: FileListing,
    manifest: bytes,
    tree: str,
) -> bytes:
    """Store a snapshot in the cache and return its identifier there.

    Errors are ignored.
    """
    generation = os.urandom(16)
    stored = _Stored(
        root=_text(root),
        conditions=conditions,
        tree=tree,
        total=table.total(),
        paths=_joined(table.paths),
        columns=(
            memoryview(table.modified.tobytes()),
            memoryview(table.changed.tobytes()),
            memoryview(table.sizes.tobytes()),
            memoryview(table.inodes.tobytes()),
            memoryview(table.modes.tobytes()),
        ),
        digests=memoryview(table.digests),
        links={row: os.fsencode(target) for row, target in table.links.items()},
        folders=_joined([folder[0] for folder in listing.folders]),
        folder_columns=(
            memoryview(array("q", [folder[1] for folder in listing.folders]).tobytes()),
            memoryview(array("q", [folder[2] for folder in listing.folders]).tobytes()),
            memoryview(array("Q", [folder[3] for folder in listing.folders]).tobytes()),
        ),
        folder_names=b"".join(folder[4] for folder in listing.folders),
        rules=[(os.fsencode(rule), recorded) for rule, recorded in listing.rules],
        index=listing.git_index,
        tracked_ignored=listing.tracked_ignored,
        is_all_of_git=listing.is_all_of_git,
        generation=generation,
        ignored=None if listing.ignored is None else list(map(os.fsencode, listing.ignored)),
    )
    body = msgspec.msgpack.encode(stored)
    checksum = zlib.crc32(body).to_bytes(4, "big")
    header = _MAGIC + checksum + len(body).to_bytes(8, "big")
    write_cache(file, header, body, manifest)
    return generation


def _remembered(stored: _Stored, root: str, file: str) -> LastSnapshot | None:
    table = StatTable(os.path.join(root, ""), [])
    table.paths = _split(stored.paths)
    for column, data in zip(
        (table.modified, table.changed, table.sizes, table.inodes, table.modes),
        stored.columns,
        strict=True,
    ):
        column.frombytes(data)
        if len(column) != len(table.paths):
            return None
    table.digests = bytearray(stored.digests)
    if len(table.digests) != 32 * len(table.paths):
        return None
    table.links = {row: os.fsdecode(target) for row, target in stored.links.items()}
    names = stored.folder_names
    modified, changed, inodes = array("q"), array("q"), array("Q")
    modified.frombytes(stored.folder_columns[0])
    changed.frombytes(stored.folder_columns[1])
    inodes.frombytes(stored.folder_columns[2])
    folders = list(
        zip(
            _split(stored.folders, empty_is_one=True) if modified else [],
            modified,
            changed,
            inodes,
            [names[at : at + 16] for at in range(0, len(names), 16)],
            strict=True,
        )
    )
    listing = FileListing(
        table.paths,
        folders,
        [(os.fsdecode(rule), recorded) for rule, recorded in stored.rules],
        stored.index,
        stored.tracked_ignored,
        None if stored.ignored is None else tuple(map(os.fsdecode, stored.ignored)),
        stored.is_all_of_git,
    )
    return LastSnapshot(table, listing, stored.tree, stored.total, file, stored.generation)


def _joined(paths: Sequence[str]) -> bytes:
    return os.fsencode("\0".join(paths))


def _split(data: bytes, *, empty_is_one: bool = False) -> list[str]:
    return os.fsdecode(data).split("\0") if data or empty_is_one else []


def _text(path: str) -> str:
    return os.fsencode(path).decode("latin-1")

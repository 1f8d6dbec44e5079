"""A project's snapshot, combined with code that is not part of the project."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from windlass.packaging.cache_files import write_cache
from windlass.packaging.manifest import FILE, Entry, encode_manifest, tree_digest
from windlass.packaging.snapshot import Snapshot


class JoinedSnapshot(Snapshot):
    """A snapshot of a project, of folders outside the project, and of texts without a file.

    `folders` maps paths in the joined tree to snapshots of folders. `texts` maps paths in the
    joined tree to contents. The joined tree's digest is cached in `cache_dir`, so that the list of
    an unchanged tree's files is only built if the server needs it.
    """

    def __init__(
        self,
        project: Snapshot,
        folders: Mapping[str, Snapshot],
        texts: Mapping[str, bytes],
        cache_dir: Path,
    ) -> None:
        self._folders = folders
        self._parts = (project, *folders.values())
        self._held = {hashlib.sha256(data).hexdigest(): data for data in texts.values()}
        self._texts = [
            Entry(path, FILE, hashlib.sha256(data).hexdigest(), len(data))
            for path, data in texts.items()
        ]
        self._manifest = None
        self.root = project.root
        self.files = sum(part.files for part in self._parts) + len(texts)
        self.size = sum(part.size for part in self._parts) + sum(map(len, texts.values()))
        self.tree = self._cached_tree(cache_dir)

    def _cached_tree(self, cache_dir: Path) -> str:
        parts = [(prefix, folder.tree) for prefix, folder in self._folders.items()]
        key = hashlib.sha256(repr((self._parts[0].tree, parts, self._texts)).encode()).hexdigest()
        file = os.path.join(str(cache_dir), "joined", key[:32])
        try:
            with open(file, "rb") as opened:
                cached = opened.read(200).decode("ascii", "replace").split()
        except OSError:
            cached = []
        if len(cached) == 2 and cached[0] == key and len(cached[1]) == 64:
            return cached[1]
        tree = tree_digest(self.manifest)
        write_cache(file, f"{key} {tree}".encode())
        return tree

    @property
    def manifest(self) -> bytes:
        """The list of files. Its sha256 is the tree's digest."""
        if self._manifest is None:
            self._manifest = encode_manifest(self.entries)
        return self._manifest

    @property
    def entries(self) -> list[Entry]:
        """The manifest entries of all files in the joined snapshot, sorted by path."""
        entries = [*self._parts[0].entries, *self._texts]
        for prefix, folder in self._folders.items():
            entries += [entry._replace(path=f"{prefix}/{entry.path}") for entry in folder.entries]
        return sorted(entries)

    @property
    def outside_links(self) -> list[tuple[str, str]]:
        """The paths and targets of links that lead outside the tree."""
        links = self._parts[0].outside_links
        for prefix, folder in self._folders.items():
            links += [(f"{prefix}/{path}", target) for path, target in folder.outside_links]
        return links

    def has_file(self, path: str) -> bool:
        """Return whether the project has a file with this path, relative to its root."""
        return self._parts[0].has_file(path)

    def read(self, digest: str) -> bytes:
        """Return the content that has this digest: a file of the joined tree, or its manifest."""
        if digest == self.tree:
            return self.manifest
        if digest in self._held:
            return self._held[digest]
        for part in self._parts:
            try:
                return part.read(digest)
            except KeyError:
                continue
        raise KeyError(digest)

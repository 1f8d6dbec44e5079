"""A project's snapshot, combined with code that is not part of the project."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from windlass.packaging.manifest import FILE, Entry, encode_manifest, tree_digest
from windlass.packaging.snapshot import Snapshot


class JoinedSnapshot(Snapshot):
    """A snapshot of a project, of folders outside the project, and of texts without a file.

    `folders` maps paths in the joined tree to snapshots of folders. `texts` maps paths in the
    joined tree to contents.
    """

    def __init__(
        self, project: Snapshot, folders: Mapping[str, Snapshot], texts: Mapping[str, bytes]
    ) -> None:
        entries = list(project.entries)
        for prefix, folder in folders.items():
            entries += [entry._replace(path=f"{prefix}/{entry.path}") for entry in folder.entries]
        self._held = {hashlib.sha256(data).hexdigest(): data for data in texts.values()}
        for path, data in texts.items():
            digest = hashlib.sha256(data).hexdigest()
            entries.append(Entry(path, FILE, digest, len(data)))
        self._manifest = encode_manifest(entries)
        self._joined = entries
        self._parts = (project, *folders.values())
        self.root = project.root
        self.tree = tree_digest(self._manifest)
        self.files = len(entries)
        self.size = sum(entry.size for entry in entries)

    @property
    def entries(self) -> list[Entry]:
        """The manifest entries of all files in the joined snapshot, sorted by path."""
        return sorted(self._joined)

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

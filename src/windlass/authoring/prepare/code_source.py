"""Takes the code snapshot for a submission, and collects the code's provenance."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec

from windlass.authoring.public.packaged import captured_folders
from windlass.home import Home
from windlass.model.job import OutsideLink
from windlass.packaging.function_sources import source_files
from windlass.packaging.joined_snapshot import JoinedSnapshot
from windlass.packaging.outside.presence import may_import_outside_code
from windlass.packaging.project_files.git import GitStatus
from windlass.packaging.project_files.limits import printable
from windlass.packaging.provenance import collect, installed_packages
from windlass.packaging.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from windlass.authoring.prepare.call_site import CallSite
    from windlass.client.client import Client
    from windlass.model.job import Code
    from windlass.packaging.function_sources import FunctionSource
    from windlass.packaging.outside.capture import Outside

_MOST_LINKS = 100


class Source:
    """A snapshot of a project's code, together with its git state and installed packages.

    Edits after the snapshot have no effect on the trial.
    """

    def __init__(self, client: Client, call_site: CallSite) -> None:
        self.call_site = call_site
        self._cache = cache_of(client)
        self._joined: tuple[Snapshot, Sequence[FunctionSource], Snapshot] | None = None
        self.outside: Outside | None = None
        status = GitStatus(str(call_site.root.path))  # runs while the files are being read
        project = take_snapshot(call_site.root, self._cache, status=status)
        self.snapshot = self._with_outside_code(project)
        if links := self.snapshot.outside_links:
            from windlass.authoring.prepare.outside_warnings import warn_of_links

            warn_of_links(links, str(call_site.root.path), self._cache)
        self.packages = installed_packages(self._cache)
        self.provenance = collect(
            status.state(), files=self.snapshot.files, size=self.snapshot.size
        )

    @property
    def code(self) -> Code:
        """The `code` field of a job's specification."""
        return self.describe(self.call_site)

    def describe(self, call_site: CallSite) -> Code:
        """Return the `code` field for a call site in the same project."""
        code = call_site.code(self.snapshot.tree)
        if links := self.snapshot.outside_links:
            shown = (OutsideLink(path=p, target=t) for p, t in map(_printable, links))
            code = msgspec.structs.replace(code, links=tuple(shown)[:_MOST_LINKS])
        return code if self.outside is None else self.outside.add_to(code)

    @property
    def outside_folders(self) -> tuple[str, ...]:
        """The folders of captured packages outside the project."""
        return captured_folders(self.code)

    def has_file(self, path: str) -> bool:
        """Return whether the snapshot contains the file with this absolute path."""
        base = os.path.join(os.path.realpath(self.call_site.root.path), "")
        real = os.path.realpath(path)
        return real.startswith(base) and self.snapshot.has_file(real[len(base) :])

    def snapshot_with(self, sources: Sequence[FunctionSource]) -> Snapshot:
        """Return the snapshot combined with sources from outside the project."""
        if not sources:
            return self.snapshot
        if self._joined is None or self._joined[:2] != (self.snapshot, sources):
            joined = JoinedSnapshot(self.snapshot, {}, source_files(sources), self._cache)
            self._joined = self.snapshot, sources, joined
        return self._joined[2]

    def retake(self) -> Snapshot:
        """Take the snapshot again, with all content held in memory.

        This is necessary if files changed during the upload.
        """
        project = take_snapshot(self.call_site.root, self._cache, hold=True)
        self.snapshot = self._with_outside_code(project, hold=True)
        self.provenance = msgspec.structs.replace(
            self.provenance, tree_files=self.snapshot.files, tree_size=self.snapshot.size
        )
        return self.snapshot

    def _with_outside_code(self, project: Snapshot, *, hold: bool = False) -> Snapshot:
        """Join the project's snapshot with those of packages outside the project."""
        root, paths = self.call_site.root, self.call_site.extra_paths
        if not may_import_outside_code(paths, self._cache):
            return project
        from windlass.authoring.prepare.outside_warnings import warn_of_uncaptured
        from windlass.packaging.outside.capture import capture_outside

        self.outside = capture_outside(project, root, paths, self._cache, hold=hold)
        warn_of_uncaptured(self.outside.packages)
        if not self.outside.folders:
            return project
        return JoinedSnapshot(project, self.outside.folders, {}, self._cache)


def _printable(link: tuple[str, str]) -> tuple[str, str]:
    return printable(link[0]), printable(link[1])


def cache_of(client: Client) -> Path:
    """Return the folder where a client caches snapshots and package lists."""
    return (client.transport.endpoint.home or Home.find()).cache

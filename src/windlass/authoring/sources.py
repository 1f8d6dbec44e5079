"""A project's code on its way to a server: the snapshot, and what is recorded of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from windlass.home import Home
from windlass.packaging.provenance import collect, installed_packages
from windlass.packaging.repository import GitStatus
from windlass.packaging.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from windlass.authoring.surroundings import Surroundings
    from windlass.client.session import Client
    from windlass.model.job import Code


class Source:
    """The code of a project at one moment; what is edited later is not in it."""

    def __init__(self, client: Client, place: Surroundings) -> None:
        self.place = place
        self._cache = cache_of(client)
        status = GitStatus(str(place.root.path))  # git answers while the tree is read
        self.snapshot = take_snapshot(place.root, self._cache, status=status)
        self.packages = installed_packages(self._cache)
        self.provenance = collect(
            status.state(), files=self.snapshot.files, size=self.snapshot.size
        )

    @property
    def code(self) -> Code:
        """The code part of a job."""
        return self.place.code(self.snapshot.tree)

    def retake(self) -> Snapshot:
        """The tree once more, its bytes held: for one that changes while it is sent."""
        self.snapshot = take_snapshot(self.place.root, self._cache, hold=True)
        self.provenance = msgspec.structs.replace(
            self.provenance, tree_files=self.snapshot.files, tree_size=self.snapshot.size
        )
        return self.snapshot


def cache_of(client: Client) -> Path:
    """Where what was found out about trees and packages is remembered."""
    return (client.transport.endpoint.home or Home.find()).cache

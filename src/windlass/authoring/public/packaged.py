"""Packaged executables, whose code `wl.package` has already uploaded to a server."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.authoring.prepare.call_site import CallSite
    from windlass.authoring.public.executables import Executable
    from windlass.client.connection.discovery import Endpoint
    from windlass.model.job import Code
    from windlass.model.records import Provenance


@dataclass(frozen=True, repr=False)
class Packaged:
    """An executable whose code was uploaded. Use it in a `wl.Job` like any other executable.

    `wl.package` and `Experiment.package` create it. Later edits to the files have no effect on it.
    A job with a packaged executable takes no new snapshot. `tree` is the hash of the code. The same
    files have the same hash on every machine.

    ```python
    [echo] = wl.package([wl.Command(["echo", "hello"])])
    print(echo.tree[:12], echo.files, echo.size)
    wl.Job(echo, args=["world"]).run()
    ```
    """

    executable: Executable
    tree: str
    files: int
    size: int
    server: str  # a local server's home, or else the server's address
    name: str  # the default name of its jobs
    argv: tuple[str, ...]  # with paths valid in the trial; empty for a function
    call_site: CallSite
    source_code: Code
    provenance: Provenance
    flaw: str = ""  # why its module cannot run, unless packages= provides the module

    functions: tuple[str, ...] = ()  # recorded functions and classes without a project file

    @property
    def code(self) -> Code:
        """The `code` field of a job's specification."""
        return msgspec.structs.replace(self.source_code, tree=self.tree, functions=self.functions)

    @property
    def outside_folders(self) -> tuple[str, ...]:
        """The folders of captured packages outside the project."""
        return captured_folders(self.source_code)

    def has_file(self, path: str) -> bool:
        """Return whether a file was uploaded with the project."""
        root = os.path.join(os.path.realpath(self.call_site.root.path), "")
        return os.path.realpath(path).startswith(root)

    def check_server(self, endpoint: Endpoint) -> None:
        """Raise an error if the code was uploaded to a different server."""
        if server_of(endpoint) == self.server:
            return
        raise InvalidArgument(
            f"{self.name} was packaged for the server of {self.server}; "
            f"this is the server of {server_of(endpoint)}.",
            hint="Package it for this server: exp.package([...]), or wl.Client(...).package([...])",
        )

    def __repr__(self) -> str:
        from windlass.model.text.quantities import format_size

        count = "1 file" if self.files == 1 else f"{self.files} files"
        return f"<Packaged {self.name}: tree {self.tree[:12]}, {count}, {format_size(self.size)}>"


def captured_folders(code: Code) -> tuple[str, ...]:
    """Return the author's folders outside the project that the snapshot contains."""
    return tuple(package.path for package in code.packages if package.folder)


def server_of(endpoint: Endpoint) -> str:
    """Return text that identifies a server even if its port changes."""
    return str(endpoint.home.path) if endpoint.home is not None else endpoint.url.rstrip("/")

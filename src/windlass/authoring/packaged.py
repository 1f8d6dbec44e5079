"""Packaged executables: what a role runs, its code as it was at one moment, kept by a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from windlass.model.errors import InvalidArgument

if TYPE_CHECKING:
    from windlass.authoring.executables import Executable
    from windlass.authoring.surroundings import Surroundings
    from windlass.client.discovery import Endpoint
    from windlass.model.job import Code
    from windlass.model.records import Provenance


@dataclass(frozen=True, repr=False)
class Packaged:
    """An executable whose code was snapshotted and uploaded: put it in a `wl.Job` like any other.

    Made by `wl.package` and `Experiment.package`. What is edited afterwards is not in it, and
    adding a job of it takes no snapshot. `tree` is the hash of the code: the same for the same
    files, wherever and whenever they are packaged.

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
    server: str  # the home of an embedded one, else the address
    name: str  # what jobs of it are called
    argv: tuple[str, ...]  # as seen from where it will run; empty for a function
    place: Surroundings
    provenance: Provenance
    flaw: str = ""  # of a module that only packages= may bring

    @property
    def code(self) -> Code:
        """The code part of a job."""
        return self.place.code(self.tree)

    def check_server(self, endpoint: Endpoint) -> None:
        """Refuse to run where it is not: a server has only the code that was sent to it."""
        if server_of(endpoint) == self.server:
            return
        raise InvalidArgument(
            f"{self.name} was packaged for the server of {self.server}; "
            f"this is that of {server_of(endpoint)}.",
            hint="Package it for this one: exp.package([...]), or wl.Client(...).package([...])",
        )

    def __repr__(self) -> str:
        from windlass.model.quantities import format_size

        count = "1 file" if self.files == 1 else f"{self.files} files"
        return f"<Packaged {self.name}: tree {self.tree[:12]}, {count}, {format_size(self.size)}>"


def server_of(endpoint: Endpoint) -> str:
    """What tells one server from another, whatever port it has today."""
    return str(endpoint.home.path) if endpoint.home is not None else endpoint.url.rstrip("/")

"""A folder of this machine that pods of the cluster of `make kube` see. A test and its programs
notify each other through files in it, also during an outage of everything else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

INSIDE = "/gate"
"""The path of the folder in pods; see `on_kubernetes.runtime.trial_functions`."""


class Gate:
    """Notifications between a test and its programs through files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o777)  # in pods the user is another one
        self._folder = folder

    @property
    def volumes(self) -> dict[str, str]:
        """The `volumes=` of jobs that use the gate."""
        return {INSIDE: f"host:{self._folder}"}

    def equip(self, role: dict[str, Any]) -> dict[str, Any]:
        """A role of an object whose pods use the gate."""
        pod = role["template"]["spec"]
        volume = {"name": "gate", "hostPath": {"path": str(self._folder)}}
        pod["volumes"] = [*pod.get("volumes", ()), volume]
        for container in pod["containers"]:
            mount = {"name": "gate", "mountPath": INSIDE}
            container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
        return role

    def create(self, name: str) -> None:
        """Create a file that a program waits for."""
        (self._folder / name).touch()

    def exists(self, name: str) -> bool:
        """Return whether a program has created such a file."""
        return (self._folder / name).exists()

    def read(self, name: str) -> str:
        """Return the text that a program wrote, or an empty text."""
        path = self._folder / name
        return path.read_text() if path.exists() else ""

    def named(self, begin: str) -> list[str]:
        """The suffixes of all file names with this prefix."""
        return sorted(path.name.removeprefix(begin) for path in self._folder.glob(f"{begin}*"))

    def clear(self) -> None:
        """Remove all files."""
        for path in self._folder.iterdir():
            path.unlink()

"""A folder of this machine that pods of the cluster of `make kube` see: there a test tells programs
to go on, and they tell it how far they are, whatever else is away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

INSIDE = "/gate"
"""Where programs find it; see `on_kubernetes.runtime.trial_functions`."""


class Gate:
    """What a test and its programs tell each other by files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o777)  # in pods they are another user
        self._folder = folder

    @property
    def volumes(self) -> dict[str, str]:
        """For `volumes=` of what is to see it."""
        return {INSIDE: f"host:{self._folder}"}

    def equip(self, role: dict[str, Any]) -> dict[str, Any]:
        """A role of an object whose pods are to see it."""
        pod = role["template"]["spec"]
        volume = {"name": "gate", "hostPath": {"path": str(self._folder)}}
        pod["volumes"] = [*pod.get("volumes", ()), volume]
        for container in pod["containers"]:
            mount = {"name": "gate", "mountPath": INSIDE}
            container["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
        return role

    def tell(self, name: str) -> None:
        """Have a file there which somebody waits for."""
        (self._folder / name).touch()

    def is_told(self, name: str) -> bool:
        """Whether a program has left such a file."""
        return (self._folder / name).exists()

    def read(self, name: str) -> str:
        """What a program has left there; nothing if it has not."""
        path = self._folder / name
        return path.read_text() if path.exists() else ""

    def named(self, begin: str) -> list[str]:
        """The ends of all names there that begin so."""
        return sorted(each.name.removeprefix(begin) for each in self._folder.glob(f"{begin}*"))

    def clear(self) -> None:
        """Remove all that was told."""
        for each in self._folder.iterdir():
            each.unlink()

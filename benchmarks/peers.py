"""Others that do the like, installed beside us and outside the tree: submitit, Ray, MLflow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.model import PeerFigure, Value

_REQUIREMENTS = {"submitit": "submitit", "ray": "ray[default]", "mlflow": "mlflow"}
_INSTALLING = 900.0


class PeerMissing(Exception):
    """A peer that cannot be had here, and why."""


class Peers:
    """The peers' own environment: made when it is first needed, kept in the user's cache."""

    def __init__(self, *, skip: bool = False) -> None:
        self._skip = skip
        self._known: dict[str, str] = {}
        self._missing: dict[str, str] = {}

    @property
    def folder(self) -> Path:
        """One environment for each version of Python."""
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return Path(cache, "windlass", "bench-peers", version)

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def versions(self) -> dict[str, str]:
        """The version of each peer that was asked for, or why it is missing."""
        return {**self._known, **{name: f"none: {why}" for name, why in self._missing.items()}}

    def measure(
        self, name: str, title: str, take: Callable[[Path], Value]
    ) -> tuple[PeerFigure, ...]:
        """Measure a peer. If it is missing or fails, its row shows the reason."""
        if self._skip:
            return ()
        try:
            value = take(self._find(name))
        except PeerMissing as error:
            return (PeerFigure(name=name, title=title, note=str(error)),)
        except Exception as error:  # noqa: BLE001 -- a peer's trouble must not end our run
            last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
            return (PeerFigure(name=name, title=title, note=f"failed: {last[:200]}"),)
        return (PeerFigure(name=name, title=title, value=value),)

    def _find(self, name: str) -> Path:
        """The interpreter that has a peer, which is installed if need be."""
        if name in self._missing:
            raise PeerMissing(self._missing[name])
        if name not in self._known:
            try:
                self._known[name] = self._version(name) or self._install(name)
            except PeerMissing as error:
                self._missing[name] = str(error)
                raise
        return self.python

    def _version(self, name: str) -> str:
        if not self.python.exists():
            return ""
        ask = f"from importlib.metadata import version; print(version({name!r}))"
        return _output([self.python, "-c", ask]) or ""

    def _install(self, name: str) -> str:
        print(f"installing {name} into {self.folder} ...", file=sys.stderr, flush=True)
        uv = Path(sys.executable).with_name("uv")
        if not self.python.exists():
            _install_step([uv, "venv", "--python", sys.executable, self.folder])
        _install_step([uv, "pip", "install", "--python", self.python, _REQUIREMENTS[name]])
        version = self._version(name)
        if not version:
            raise PeerMissing("it was installed and is not there")
        return version


def _output(argv: list[str | Path]) -> str | None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _install_step(argv: list[str | Path]) -> None:
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=_INSTALLING, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerMissing(f"cannot be installed: {error}") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines() or ["uv failed"]
        raise PeerMissing(f"cannot be installed: {said[-1].strip()[:200]}")

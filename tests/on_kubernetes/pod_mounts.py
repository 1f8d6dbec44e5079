"""Files and settings of this machine for pods of the cluster of `make kube`, which runs here.

They are not part of an image. Tests look them up when they run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
"""The project."""


@dataclass(frozen=True)
class Mounts:
    """Folders and files of this machine that a pod mounts read-only, and variables for them."""

    paths: tuple[Path, ...] = ()
    env: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: Mounts) -> Mounts:
        return Mounts((*self.paths, *other.paths), {**self.env, **other.env})

    @property
    def volumes(self) -> list[dict[str, Any]]:
        """For a pod's `volumes`."""
        return [
            {"name": name, "hostPath": {"path": str(path)}} for name, path in self._named().items()
        ]

    @property
    def places(self) -> list[dict[str, Any]]:
        """For a container's `volumeMounts`, with the same paths as on this machine."""
        return [
            {"name": name, "mountPath": str(path), "readOnly": True}
            for name, path in self._named().items()
        ]

    @property
    def sources(self) -> dict[str, str]:
        """For `volumes=` of a Windlass executor."""
        return {str(path): f"host:{path}:ro" for path in dict.fromkeys(self.paths)}

    def _named(self) -> dict[str, Path]:
        distinct = dict.fromkeys(self.paths)
        return {f"machine-{number}": path for number, path in enumerate(distinct)}


def project_environment() -> Mounts:
    """This environment with its packages, its interpreter, and the project's source.

    A pod runs `sys.executable` with it, with PyTorch and TensorFlow if they are installed.
    """
    paths = (Path(sys.prefix), Path(sys.base_prefix), ROOT / "src", ROOT / "tests")
    return Mounts(paths, {"PYTHONDONTWRITEBYTECODE": "1"})


def source() -> Mounts:
    """Only the source, from which the image's own Python imports `windlass.worker`."""
    env = {"PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return Mounts((ROOT / "src",), env)


def package_index() -> Mounts:
    """The settings, certificates and local folders with which pip and uv find packages."""
    kept = ("PIP_", "UV_INDEX", "UV_EXTRA_INDEX", "UV_DEFAULT_INDEX", "UV_FIND_LINKS")
    named = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy")
    env = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(kept) or key in named or key.lower() in named
    }
    env = {**_pip_settings(), **env}
    return Mounts(tuple(_local_paths(env)), env)


def _pip_settings() -> dict[str, str]:
    """The settings of pip's files, as environment variables.

    `global.index-url='http://...'` is PIP_INDEX_URL.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return variables_of(done.stdout)


def variables_of(listed: str) -> dict[str, str]:
    """The output of `pip config list` as environment variables.

    >>> variables_of("global.extra-index-url='http://a http://b'\\n:env:.timeout='9'")
    {'PIP_EXTRA_INDEX_URL': 'http://a http://b'}
    """
    variables = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in ("global", "install"):
            variables[f"PIP_{name.upper().replace('-', '_')}"] = value.strip("'\"")
    return variables


def _local_paths(env: Mapping[str, str]) -> Iterable[Path]:
    """The existing folders and files that settings name."""
    for value in env.values():
        for word in value.split():
            url = urlsplit(word)
            path = Path(url.path)
            if url.scheme in ("", "file") and path.is_absolute() and path.exists():
                # An index on disk has its files beside its pages.
                yield path.parent if path.name == "simple" else path

"""Checks quickly whether a job can import any code from outside its project."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from windlass.packaging.package_cache import cached_by_packages

VARIABLE = "WINDLASS_OUTSIDE_CODE"


def may_import_outside_code(extra_paths: Iterable[str], cache_dir: Path) -> bool:
    """Return whether there is code outside the project that belongs in a snapshot.

    `extra_paths` are the entries of `sys.path` outside the project. Most projects need none of this
    package's other modules, so this check does not import them. The environment variable
    `WINDLASS_OUTSIDE_CODE` with the value `never` keeps such code out of snapshots.
    """
    if os.environ.get(VARIABLE) == "never":
        return False
    return any(path != own_folder() for path in extra_paths) or (
        encoded_installs(cache_dir) != b"[]"
    )


def own_folder() -> str:
    """Return the folder from which Windlass is imported. Snapshots never contain Windlass."""
    return os.path.realpath(Path(__file__).parents[3])


def encoded_installs(cache_dir: Path) -> bytes:
    """Return the packages that were installed from a folder, as a JSON list.

    The list is cached until a package folder changes.
    """
    return cached_by_packages(cache_dir, "folder-installs", _find)


def _find() -> bytes:
    from windlass.packaging.outside.installs import encode_installs

    return encode_installs()

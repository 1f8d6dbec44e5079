"""Warns about packages outside the project that a snapshot does not contain."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from windlass.authoring.checks.options import callers_level
from windlass.model.job import OutsidePackage

_warned: set[str] = set()  # the paths of packages already warned about


def warn_of_uncaptured(packages: Iterable[OutsidePackage]) -> None:
    """Warn once about each package that trials import from its own folder, as it is then."""
    for package in packages:
        if package.folder or package.path in _warned:
            continue
        _warned.add(package.path)
        warnings.warn(
            f"{package.name} in {package.path} is not part of the snapshot: {package.reason} "
            "Trials import its current files, so later edits may affect them.",
            stacklevel=callers_level(),
        )

"""Warns about code and files outside the project that a snapshot does not contain."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from windlass.authoring.checks.options import callers_level
from windlass.model.job import OutsidePackage
from windlass.packaging.cache_files import write_cache
from windlass.packaging.project_files.limits import printable

_MOST_NAMED = 3
_warned: set[str] = set()  # the paths of packages already warned about


def warn_of_uncaptured(packages: Iterable[OutsidePackage]) -> None:
    """Warn once about each package that snapshots do not contain.

    Trials import such a package from its own folder, in the state that the folder has at that time.
    """
    for package in packages:
        if package.folder or package.path in _warned:
            continue
        _warned.add(package.path)
        warnings.warn(
            f"{package.name} in {package.path} is not part of the snapshot: {package.reason} "
            "Trials import its current files, so later edits may affect them.",
            stacklevel=callers_level(),
        )


def warn_of_links(links: Sequence[tuple[str, str]], root: str, cache_dir: Path) -> None:
    """Warn about links that lead outside the project, once for each state of a project's links.

    `links` are pairs of a link and its target.
    """
    key = hashlib.sha256(repr((root, links)).encode("utf-8", "replace")).hexdigest()[:32]
    marker = os.path.join(str(cache_dir), "link-notes", key)
    if os.path.exists(marker):
        return
    write_cache(marker)
    named = [f"{printable(path)} -> {printable(target)}" for path, target in links[:_MOST_NAMED]]
    more = f" and {len(links) - _MOST_NAMED} more" if len(links) > _MOST_NAMED else ""
    warnings.warn(
        f"The snapshot of {root} keeps links that lead outside the project, but not the files "
        f"behind them: {', '.join(named)}{more}. Later changes to these files affect the trial.",
        stacklevel=callers_level(),
    )

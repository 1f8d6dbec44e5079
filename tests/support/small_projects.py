"""Small projects for the functions that tests run as trials.

A trial gets a copy of the project that its function is part of. A copy of this repository costs
0.15 s of CPU, a copy of a few modules next to nothing. Such a function also runs in a fork of a
launcher, as users' functions do; a function of this repository does not, because `windlass` is a
module of its project.
"""

from __future__ import annotations

import atexit
import importlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def import_copy(path: Path) -> Any:
    """Import a file from a new project that holds nothing else, under the name FOLDER_FILE."""
    name = f"{path.parent.name}_{path.stem}"
    _create_project({name: path})
    return importlib.import_module(name)


def import_copies(folder: Path, *names: str) -> None:
    """Import modules from a new project that holds nothing else.

    Test files that import these modules by name get the copies.
    """
    _create_project({name: folder / f"{name}.py" for name in names})
    for name in names:
        importlib.import_module(name)


def _create_project(modules: Mapping[str, Path]) -> None:
    project = tempfile.mkdtemp(prefix="functions-")
    atexit.register(shutil.rmtree, project, ignore_errors=True)
    for name, path in modules.items():
        shutil.copy(path, Path(project, f"{name}.py"))
    sys.path.insert(0, project)

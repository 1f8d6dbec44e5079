"""Makes Python import recorded copies of packages that are outside the project.

A package outside the project, such as an editable install, is imported from a folder of `sys.path`
or by an import hook. This module adds the folder's recorded copy to `sys.path` in front of the
folder, so that the order of all other imports stays the same. An import hook is asked after all
folders, so its folders' copies come last.
"""

from __future__ import annotations

import json
import os
import sys

VARIABLE = "WINDLASS_IMPORTS"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def describe_imports(copies: Sequence[tuple[str, str]]) -> str:
    """Return the value of the environment variable that describes copies.

    Each entry of `copies` is a pair of a folder, or "" for an import hook, and the folder's copy.

    >>> describe_imports([("/code/lib", "/work/lib")])
    '[["/code/lib", "/work/lib"]]'
    """
    return json.dumps([list(pair) for pair in copies])


def use_copies(paths: list[str], copies: Sequence[tuple[str, str]]) -> None:
    """Add copies of folders to import paths.

    >>> paths = ["/work", "/code/lib"]
    >>> use_copies(paths, [("/code/lib", "/copy/lib"), ("", "/copy/hooked")])
    >>> paths
    ['/work', '/copy/lib', '/code/lib', '/copy/hooked']
    """
    for folder, copy in copies:
        if copy in paths:
            continue
        where = _position(paths, folder) if folder else len(paths)
        paths.insert(where, copy)


def use_recorded_copies() -> None:
    """Add the copies that the supervisor lists in the environment to this process's path."""
    described = os.environ.get(VARIABLE)
    if described:
        use_copies(sys.path, json.loads(described))


def _position(paths: Sequence[str], folder: str) -> int:
    real = os.path.realpath(folder)
    for number, path in enumerate(paths):
        if path == folder or (path and os.path.realpath(path) == real):
            return number
    return len(paths)

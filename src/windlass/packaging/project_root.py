"""Where a project begins: the folder that is snapshotted."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

RootKind = Literal["git", "pyproject", "folder", "loaded"]


_HEAP = 100


class Root(msgspec.Struct, frozen=True):
    """The folder a snapshot is of, and how it was found.

    Of kind `loaded` is a folder that is too much to take whole, such as a home directory:
    its snapshot holds only the script and the modules loaded from below it.
    """

    path: Path
    kind: RootKind
    script: Path | None = None


def find_root(start: Path | None = None, script: Path | None = None) -> Root:
    """The project that a script, or a session without one, belongs to.

    That is the nearest folder above with `.git`, else with `pyproject.toml`, else the script's
    own folder; without a script (REPL, notebook) it is searched from `start`, by default the
    working directory. A home directory, `/` and the temporary directory are never a project.

    >>> find_root(Path("/")).kind
    'loaded'
    """
    if script is not None and (is_installed(str(script)) or not os.path.exists(script)):
        script = None  # a console script such as pytest: the project is where it was started
    if script is not None:
        script = Path(os.path.realpath(script))
        begin = str(script.parent)
    else:
        begin = os.path.realpath(start or os.getcwd())
    home, temporary = os.path.expanduser("~"), map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))
    too_much = _folders_too_large(home, *filter(None, temporary))
    ancestors = [folder for folder in _ancestors(begin) if folder not in too_much]
    for folder in ancestors:
        if os.path.exists(os.path.join(folder, ".git")):
            return Root(Path(folder), "git", script)
    for folder in ancestors:
        if os.path.isfile(os.path.join(folder, "pyproject.toml")):
            return Root(Path(folder), "pyproject", script)
    return Root(Path(begin), "loaded" if begin in too_much else "folder", script)


def given_root(folder: Path, script: str | None = None) -> Root:
    """The folder that a user names as the project: all of it, however much that is."""
    path = Path(os.path.realpath(folder))
    kind: RootKind = "git" if os.path.exists(path / ".git") else "folder"
    return Root(path, kind, Path(os.path.realpath(script)) if script else None)


def loaded_files(root: Root) -> list[str]:
    """The files a `loaded` root consists of: the script and what was imported from below it.

    What a script that runs elsewhere will import is not known yet, so the modules that lie
    beside it come along. The paths are relative to the root, sorted.
    """
    prefix = os.path.join(str(root.path), "")
    files = _beside(root.script) if root.script is not None else set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith((".py", ".so", ".pyd")):
            files.add(os.path.realpath(file))
    return sorted(
        file.removeprefix(prefix)
        for file in files
        if file.startswith(prefix) and not is_installed(file) and os.path.isfile(file)
    )


def _beside(script: Path) -> set[str]:
    """A script and the modules in its folder, unless there are so many that it is a heap."""
    with os.scandir(script.parent) as entries:
        modules = {entry.path for entry in entries if entry.name.endswith(".py")}
    return {str(script)} | (modules if len(modules) <= _HEAP else set())


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Whether a file belongs to the interpreter or its packages rather than to a project.

    >>> is_installed(os.__file__), is_installed("/home/user/project/train.py")
    (True, False)
    """
    # Most paths are told by their text; only the rest is worth asking the file system about.
    if file.startswith("/") and _is_below_any(file):
        return True
    path = os.path.abspath(file)
    return _is_below_any(path) or _is_below_any(os.path.realpath(path))


def _is_below_any(path: str) -> bool:
    if "/site-packages/" in path or "/dist-packages/" in path:
        return True
    return path.startswith(_interpreter_folders())


@lru_cache(maxsize=1)
def _interpreter_folders() -> tuple[str, ...]:
    # Not sys.prefix itself: a virtual environment's folder may hold the project, too.
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    folders = [os.path.dirname(os.__file__) + os.sep]
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}:
        folders += [
            os.path.join(prefix, "bin", ""),
            os.path.join(prefix, "lib", library, ""),
            os.path.join(prefix, "lib64", library, ""),
        ]
    return tuple(folders)


def _ancestors(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


@lru_cache(maxsize=8)
def _folders_too_large(*own: str) -> frozenset[str]:
    # As tempfile has it, which would be a long import, and make a file to see that it can.
    shared = ("/", "/tmp", "/var/tmp", "/usr/tmp", "/home")  # noqa: S108 - compared with, never written to
    return frozenset(os.path.realpath(folder) for folder in (*shared, *own))

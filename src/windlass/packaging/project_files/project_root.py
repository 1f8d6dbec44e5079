"""Finds a project's root, the folder that a snapshot contains."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from windlass.model.text.names import DEFAULT, LONGEST_NAME
from windlass.packaging.project_files.limits import printable
from windlass.worker.common.file_reads import read_json
from windlass.worker.common.own_attempt import attempt_dir

RootKind = Literal["git", "pyproject", "folder", "loaded", "package"]


_HEAP = 100


class Root(msgspec.Struct, frozen=True):
    """A project's root, and how it was found.

    A root of the kind `loaded`, such as a home directory, is too large for a snapshot. The snapshot
    then contains only the script and the modules that were loaded from this folder.

    A root of the kind `package` is a folder outside the project from which a job imports. `kept`
    has the paths in it that are packaged even if git ignores them, such as an import package with a
    compiled module. If `only` is set, the snapshot contains nothing but these paths.
    """

    path: Path
    kind: RootKind
    script: Path | None = None
    only: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def find_root(start: Path | None = None, script: Path | None = None) -> Root:
    """Find the project root for a script or an interactive session.

    The root is the nearest parent folder with `.git`, or else with `pyproject.toml`, or else the
    script's folder. Without a script, as in a notebook, the search starts at `start`, or else at
    the working directory. A home directory, `/` and the temporary directory are never roots. Inside
    a trial, the root is the trial's copy of the project, if it contains the script.

    >>> find_root(Path("/")).kind
    'loaded'
    """
    if script is not None and (is_installed(str(script)) or not os.path.exists(script)):
        script = None  # the script is a tool such as pytest, not part of a project
    if script is not None:
        script = Path(os.path.realpath(script))
        begin = str(script.parent)
    else:
        begin = os.path.realpath(start or os.getcwd())
    copy = _own_copy()
    if copy and os.path.join(begin, "").startswith(os.path.join(copy, "")):
        return Root(Path(copy), "folder", script)
    too_much = folders_too_large()
    ancestors = [folder for folder in _ancestors(begin) if folder not in too_much]
    for folder in ancestors:
        if os.path.exists(os.path.join(folder, ".git")):
            return Root(Path(folder), "git", script)
    for folder in ancestors:
        if os.path.isfile(os.path.join(folder, "pyproject.toml")):
            return Root(Path(folder), "pyproject", script)
    return Root(Path(begin), "loaded" if begin in too_much else "folder", script)


def project_name(root: Root) -> str:
    """Return the name of a project: the name of its git repository or of its folder.

    All worktrees of a repository have the same name. A folder without a project, such as a home
    directory, has the default name.

    >>> project_name(Root(Path("/home/ada/vision"), "folder"))
    'vision'
    """
    if root.kind == "loaded":
        return DEFAULT
    folder = os.path.realpath(root.path)
    if folder == _own_copy():
        folder = _original_root() or DEFAULT
    if os.path.exists(os.path.join(folder, ".git")):
        from windlass.packaging.project_files.git import common_directory, git_directory

        common = common_directory(git_directory(folder))
        is_plain = os.path.basename(common) == ".git"
        folder = os.path.dirname(common) if is_plain else common.removesuffix(".git")
    name = printable(os.path.basename(folder))
    name = "".join(c if c.isprintable() else "?" for c in name).strip()[:LONGEST_NAME].strip()
    return name or DEFAULT


def own_root() -> Root:
    """Return the root of this process's program, or of the working directory in a notebook."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return find_root(script=Path(main) if isinstance(main, str) else None)


def _original_root() -> str:
    """Return the folder that this trial's code was copied from, or "" if it is not known."""
    launch = read_json(os.path.join(attempt_dir() or "", "launch.json"))
    return str((launch or {}).get("root", ""))


def _own_copy() -> str | None:
    """Return the folder with the trial's copy of the project, or None outside of a trial."""
    attempt = attempt_dir()
    return None if attempt is None else os.path.realpath(os.path.join(attempt, "../work"))


def explicit_root(folder: Path, script: str | None = None) -> Root:
    """Return the root for a user-selected folder, which may have any size."""
    path = Path(os.path.realpath(folder))
    kind: RootKind = "git" if os.path.exists(path / ".git") else "folder"
    return Root(path, kind, Path(os.path.realpath(script)) if script else None)


def loaded_files(root: Root) -> list[str]:
    """Return the files in a root of the kind `loaded`, as sorted relative paths.

    These are the script, the Python files next to it, and the modules that this process has loaded
    from the root. The files next to the script are included because the script runs in another
    process, whose imports are not known yet.
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
    """Return the script and the Python files next to it, or only the script if there are many."""
    with os.scandir(script.parent) as entries:
        modules = {entry.path for entry in entries if entry.name.endswith(".py")}
    return {str(script)} | (modules if len(modules) <= _HEAP else set())


@functools.lru_cache(maxsize=4096)
def is_installed(file: str) -> bool:
    """Return True if a file belongs to the interpreter or an installed package.

    >>> is_installed(os.__file__), is_installed("/home/user/project/train.py")
    (True, False)
    """
    # For most paths, the text suffices. Only the remaining ones require access to the file system.
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
    # sys.prefix itself is left out, because a virtual environment may contain the project.
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


def folders_too_large() -> frozenset[str]:
    """Return the folders that are too large for a snapshot, such as the home directory."""
    home, temporary = os.path.expanduser("~"), map(os.environ.get, ("TMPDIR", "TEMP", "TMP"))
    return _folders_too_large(home, *filter(None, temporary))


@lru_cache(maxsize=8)
def _folders_too_large(*own: str) -> frozenset[str]:
    # The folders that tempfile uses. Importing tempfile is slow, and it tests folders by creating
    # files.
    shared = ("/", "/tmp", "/var/tmp", "/usr/tmp", "/home")  # noqa: S108 - never written to
    return frozenset(os.path.realpath(folder) for folder in (*shared, *own))

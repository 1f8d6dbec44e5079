"""Finds the code outside a project that a job can import."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from windlass.packaging.outside.installs import OURS, FolderInstall, find_folder_installs
from windlass.packaging.outside.presence import own_folder
from windlass.packaging.project_files.project_root import Root, folders_too_large, is_installed

_ENDINGS = (".py", ".so", ".pyd")
_GENERIC = ("src", "lib", "python")  # names that do not identify a package


class Base(NamedTuple):
    """A folder from which modules are imported.

    `entry` is the folder's path in `sys.path`, or "" if an import hook names the folder. If `only`
    is set, the job imports only these names from the folder. `subfolder` is where the folder's copy
    lies, if an import hook gives the folder a different name.
    """

    entry: str
    folder: str
    only: tuple[str, ...] = ()
    subfolder: str = ""


class OutsideCode(NamedTuple):
    """A package or folder outside the project. Without `bases`, its imports are not known.

    `is_whole` is true if all of the folder `path` belongs to the package. `is_partial` is true if
    the job may import other modules from there, too.
    """

    name: str
    path: str
    bases: tuple[Base, ...]
    is_whole: bool = False
    is_partial: bool = False


def find_outside_code(
    root: Root, extra_paths: Iterable[str], cache_dir: Path
) -> tuple[list[OutsideCode], tuple[str, ...]]:
    """Return the code outside a project that a job can import.

    `extra_paths` are the entries of `sys.path` outside the project, resolved. The second value
    lists import paths in the project, relative to its root, that only an import hook knows.
    """
    project = os.path.realpath(root.path)
    found: list[OutsideCode] = []
    inside: list[str] = []
    entries = set()
    for install in find_folder_installs(cache_dir):
        entries |= {os.path.realpath(entry) for entry in install.entries}
        code = _of_install(install)
        bases = tuple(base for base in code.bases if not _is_within(base.folder, project))
        inside += [
            os.path.relpath(base.folder, project)
            for base in code.bases
            if base not in bases and not base.entry and not base.subfolder
        ]
        if bases or (not code.bases and not _is_within(code.path, project)):
            found.append(code._replace(bases=bases))
    own = own_folder()
    others = [_of_entry(path) for path in extra_paths if path not in entries and path != own]
    found += [code for code in others if code is not None]
    return _with_own_names(found), tuple(dict.fromkeys(inside))


def _of_install(install: FolderInstall) -> OutsideCode:
    bases: dict[tuple[str, str, str], set[str]] = {}
    for entry in install.entries:
        if os.path.isdir(entry):
            is_flat = os.path.realpath(entry) == install.folder
            names = importable_names(entry) | _loaded_paths(entry) if is_flat else set()
            bases[entry, os.path.realpath(entry), ""] = names
    for name, path in install.modules:
        if not os.path.exists(path):
            continue
        if install.is_editable:
            base = _base_of(name, os.path.realpath(path))
            names = set() if base.subfolder else {name.partition(".")[0]}
        else:
            # the copy in the snapshot precedes the one in site-packages
            site = os.path.dirname(path)
            base, names = Base(site, os.path.realpath(site)), {name}
        key = base.entry, base.folder, base.subfolder
        bases[key] = bases.get(key, set()) | names
    is_copied = not install.is_editable and install.modules
    return OutsideCode(
        install.name,
        os.path.dirname(install.modules[0][1]) if is_copied else install.folder,
        tuple(Base(*key[:2], tuple(sorted(only)), key[2]) for key, only in bases.items()),
        is_whole=install.is_editable,
    )


def _base_of(name: str, path: str) -> Base:
    """Return the folder from which an import hook imports a package.

    >>> _base_of("team.lib", "/code/team/lib")
    Base(entry='', folder='/code', only=(), subfolder='')
    >>> _base_of("lib", "/code/src")
    Base(entry='', folder='/code/src', only=(), subfolder='lib')
    """
    parts = name.split(".")
    stem = path.removesuffix(".py")
    if stem.split("/")[-len(parts) :] == parts:
        return Base("", stem[: -len(name) - 1])
    return Base("", path, (), "/".join(parts))


def _of_entry(path: str) -> OutsideCode | None:
    """Return the code in an entry of `sys.path`, or None if the job imports nothing from there."""
    parent, name = os.path.split(path)
    shown = os.path.basename(parent) if name in _GENERIC else name
    if not os.path.isdir(path):
        return OutsideCode(shown, path, ())
    loaded = _loaded_paths(path)
    importable = set() if path in folders_too_large() else importable_names(path)
    names = loaded or importable
    if not names:
        return None
    base = Base(path, path, tuple(sorted(names)))
    return OutsideCode(shown, path, (base,), is_partial=not names >= importable)


def importable_names(folder: str) -> set[str]:
    """Return the names of the modules and packages in a folder."""
    with os.scandir(folder) as entries:
        return {
            entry.name
            for entry in entries
            if entry.name.endswith(_ENDINGS)
            or (
                entry.name.isidentifier()
                and entry.name != OURS
                and os.path.isfile(os.path.join(entry.path, "__init__.py"))
            )
        }


def _loaded_paths(folder: str) -> set[str]:
    """Return the modules and packages that this process has loaded from a folder.

    A package counts as one path. A folder without `__init__.py` may contain other things than
    modules, so only the loaded modules in it count.
    """
    prefix = os.path.join(folder, "")
    paths = set()
    for name, module in list(sys.modules.items()):
        file = _file_of(module)
        if file is None or name in ("__main__", "__mp_main__", OURS):
            continue
        parent = name.rpartition(".")[0]
        if parent and _file_of(sys.modules.get(parent)) is not None:
            continue  # a part of a package
        for form in (file, os.path.realpath(file)):
            if form.startswith(prefix) and not is_installed(form):
                paths.add(form[len(prefix) :].removesuffix("/__init__.py"))
    return paths


def _file_of(module: object) -> str | None:
    # Some values in sys.modules are not modules, and some raise errors when accessed.
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return file if isinstance(file, str) else None


def _with_own_names(found: list[OutsideCode]) -> list[OutsideCode]:
    """Make the names of all packages different, and valid as names of folders."""
    named: dict[str, OutsideCode] = {}
    for code in found:
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", code.name).strip(".") or "code"
        name, number = plain, 2
        while name in named:
            name, number = f"{plain}-{number}", number + 1
        named[name] = code._replace(name=name)
    return list(named.values())


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")

"""Takes snapshots of code outside the project, and lays them out in the project's snapshot."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from windlass.model.errors import SnapshotError
from windlass.model.job import Code, OutsidePackage, PackageImport
from windlass.packaging.manifest import MAX_FILES
from windlass.packaging.outside.imports import Base, OutsideCode, find_outside_code
from windlass.packaging.project_files.file_listing import Selection, list_tree
from windlass.packaging.project_files.ignore import RECORDED
from windlass.packaging.project_files.limits import Limits, largest_snapshot
from windlass.packaging.project_files.project_root import Root
from windlass.packaging.snapshot import Snapshot, take_snapshot

_PACKAGES = f"{RECORDED}/packages"
# An editable install's whole folder is captured up to this size, otherwise only its packages.
_WHOLE = Limits(files=5_000, size=50_000_000)
_RESERVE = Limits(files=200, size=2_000_000)  # for code without a file


class Outside(NamedTuple):
    """Code from outside a project. `folders` maps paths in the joined tree to snapshots.

    `import_paths` are paths in the project from which only an import hook imports.
    """

    packages: tuple[OutsidePackage, ...] = ()
    folders: dict[str, Snapshot] = {}
    import_paths: tuple[str, ...] = ()

    def add_to(self, code: Code) -> Code:
        """Return a description of the project's code, with this code added."""
        paths = dict.fromkeys((*code.import_paths, *self.import_paths))
        return replace(code, import_paths=tuple(paths), packages=self.packages)


class _Part(NamedTuple):
    """A folder to capture. `target` is its path in the joined tree."""

    target: str
    root: Root


def capture_outside(
    project: Snapshot,
    root: Root,
    extra_paths: Iterable[str],
    cache_dir: Path,
    *,
    hold: bool = False,
) -> Outside:
    """Capture the code outside a project that a job can import, as far as the limits allow.

    `extra_paths` are the entries of `sys.path` outside the project.
    """
    found, inside = find_outside_code(root, extra_paths, cache_dir)
    room = largest_snapshot().minus(project.files, project.size).minus(*_RESERVE)
    packages: list[OutsidePackage] = []
    folders: dict[str, Snapshot] = {}
    for code in found:
        package, taken = _capture(code, room, cache_dir, hold)
        packages.append(package)
        for target, snapshot in taken.items():
            folders[target] = snapshot
            room = room.minus(snapshot.files, snapshot.size)
    return Outside(tuple(packages), folders, inside)


def _capture(
    code: OutsideCode, room: Limits, cache_dir: Path, hold: bool
) -> tuple[OutsidePackage, dict[str, Snapshot]]:
    folder = f"{_PACKAGES}/{code.name}"
    reason = "" if code.bases else "Windlass does not know how it is imported."
    ways = (True, False) if code.is_whole else (False,)
    for is_whole in ways if code.bases else ():
        parts = list(_parts(code, folder, is_whole))
        limits = room.at_most(_WHOLE) if is_whole else room
        try:
            taken = _take(parts, limits, cache_dir, hold)
        except SnapshotError as error:
            reason = error.message
            continue
        if any(snapshot.files for snapshot in taken.values()):
            imports = tuple(dict.fromkeys(_imports(code, folder, is_whole)))
            package = OutsidePackage(
                name=code.name,
                path=code.path,
                folder=folder,
                imports=imports,
                is_partial=code.is_partial,
            )
            return package, taken
        reason = reason or "It contains no files that can be packaged."
    return OutsidePackage(
        name=code.name, path=code.path, reason=reason[:300], state=_state_of(code)
    ), {}


def _take(
    parts: Iterable[_Part], limits: Limits, cache_dir: Path, hold: bool
) -> dict[str, Snapshot]:
    taken = {}
    for part in parts:
        snapshot = take_snapshot(part.root, cache_dir, hold=hold, limits=limits)
        limits = limits.minus(snapshot.files, snapshot.size)
        if min(limits) < 0:
            raise SnapshotError(f"The code in {part.root.path} is too large for a snapshot.")
        taken[part.target] = snapshot
    return taken


def _parts(code: OutsideCode, folder: str, is_whole: bool) -> Iterator[_Part]:
    """Yield the folders to capture: a whole folder, or only the folders of its packages."""
    if is_whole:
        kept = [path for base in code.bases for path in _kept(base, code.path)]
        yield _Part(folder, Root(Path(code.path), "package", kept=tuple(kept)))
    for number, base in enumerate(code.bases):
        if not is_whole or not _is_in(base, code.path):
            root = Root(Path(base.folder), "package", only=base.only, kept=base.only or (".",))
            yield _Part(_target(base, number, folder, code, is_whole), root)


def _imports(code: OutsideCode, folder: str, is_whole: bool) -> Iterator[PackageImport]:
    for number, base in enumerate(code.bases):
        target = _target(base, number, folder, code, is_whole)
        if base.subfolder:
            target = target[: -len(base.subfolder) - 1]
        yield PackageImport(entry=base.entry, path=target)


def _target(base: Base, number: int, folder: str, code: OutsideCode, is_whole: bool) -> str:
    """Return the path of a base's copy in the joined tree."""
    if is_whole and _is_in(base, code.path):
        return os.path.normpath(os.path.join(folder, os.path.relpath(base.folder, code.path)))
    if base.subfolder:
        return f"{folder}/.renamed-{number}/{base.subfolder}"
    return f"{folder}/.imports-{number}" if is_whole or len(code.bases) > 1 else folder


def _kept(base: Base, folder: str) -> list[str]:
    if not _is_in(base, folder):
        return []
    relative = os.path.relpath(base.folder, folder)
    return [os.path.normpath(os.path.join(relative, name)) for name in base.only] or [relative]


def _is_in(base: Base, folder: str) -> bool:
    inside = os.path.join(os.path.realpath(folder), "")
    return not base.subfolder and os.path.join(base.folder, "").startswith(inside)


def _state_of(code: OutsideCode) -> str:
    """Return a digest of the names, sizes and times of files, or "" if there are too many."""
    digest = hashlib.sha256()
    left = MAX_FILES
    bases = code.bases or (Base("", code.path),)
    for base in bases:
        selection = Selection(base.only, base.only or (".",), left)
        try:
            files = (
                list_tree(base.folder, is_repository=False, home="", selection=selection).files
                if os.path.isdir(base.folder)
                else [base.folder]
            )
            for path in files:
                status = os.lstat(path)
                fact = (path, status.st_size, status.st_mtime_ns)
                digest.update(repr(fact).encode("utf-8", "surrogateescape"))
        except (OSError, SnapshotError):
            return ""
        left -= len(files)
        if left <= 0:
            return ""
    return digest.hexdigest()

"""Volumes for trials on this machine. A volume is a link to data in the trial's working folder.

The link can also be beside the working folder, so that a program finds its data in `../data`.
"""

from __future__ import annotations

import os

from windlass.worker.blobs.restore_tree import open_folder
from windlass.worker.blobs.written_files import is_own_name
from windlass.worker.supervise.child_process import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def link_volumes(volumes: Iterable[Mapping[str, str]], work: str, workdir: str) -> None:
    """Create a link to each volume at its target path, relative to the working directory."""
    for volume in volumes:
        target = volume["target"]
        path = os.path.normpath(os.path.join(workdir, target))
        root, above = (os.path.dirname(work), path[3:]) if path.startswith("../") else (work, "")
        is_inside = is_beside_project(above) if above else path not in (".", "..")
        if os.path.isabs(target) or not is_inside:
            raise StartError(f"the volume {target!r} is outside the trial's folder", 126)
        if not os.path.exists(volume["source"]):
            raise StartError(f"the volume {volume['source']} does not exist", 126)
        _link(root, above or path, volume["source"])


def is_beside_project(path: str) -> bool:
    """Return whether a path in the folder that contains the project may be a volume.

    >>> [is_beside_project(path) for path in ("data", "work/a.py", "../data")]
    [True, False, False]
    """
    first = path.split("/")[0]
    return first != ".." and not is_own_name(first)


def _link(root_path: str, path: str, source: str) -> None:
    parent, _, name = path.rpartition("/")
    root = os.open(root_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        folder = open_folder(root, os.fsencode(parent), replacing=False)
        try:
            _clear(folder, name)
            os.symlink(source, name, dir_fd=folder)
        finally:
            os.close(folder)
    except FileExistsError:
        raise StartError(f"the volume {path!r} would hide files of the code", 126) from None
    finally:
        os.close(root)


def _clear(folder: int, name: str) -> None:
    """Remove an earlier attempt's link, or an empty folder, from a volume's target path."""
    try:
        os.readlink(name, dir_fd=folder)
        os.unlink(name, dir_fd=folder)
    except OSError:
        pass  # not a link
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError:
        pass  # not an empty folder

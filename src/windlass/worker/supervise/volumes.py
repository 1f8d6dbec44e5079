"""Volumes for trials on this machine. A volume is a link to data in the working directory."""

from __future__ import annotations

import os

from windlass.worker.blobs.restore_tree import open_folder
from windlass.worker.supervise.child_process import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def link_volumes(volumes: Iterable[Mapping[str, str]], cwd: str) -> None:
    """Create a link to each volume at its target path, relative to the working directory."""
    for volume in volumes:
        path = os.path.normpath(volume["target"])
        if os.path.isabs(path) or path.split("/")[0] in ("..", "."):
            raise StartError(
                f"the volume {volume['target']!r} is outside the working directory", 126
            )
        if not os.path.exists(volume["source"]):
            raise StartError(f"the volume {volume['source']} does not exist", 126)
        _link(cwd, path, volume["source"])


def _link(cwd: str, path: str, source: str) -> None:
    parent, _, name = path.rpartition("/")
    root = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
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

"""Reads and writes bytecode in a folder of the home instead of the folders of the sources.

Where Python may not write bytecode, each process would compile all modules that it imports. The
server, its launchers and its supervisors import their installation through this cache. Modules
outside the installation, such as those of the standard library, are imported as usual.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType
    from typing import Any


@contextmanager
def imported_through(folder: str, root: str) -> Iterator[None]:
    """Within this context, cache the bytecode of the sources under `root` in `folder`.

    Only this user may be able to write to `folder`, because Python runs what it finds there.
    """
    add_cache(folder, root)
    try:
        yield
    finally:
        del sys.path_hooks[0]
        _forget_finders(root)


def add_cache(folder: str, root: str) -> None:
    """Cache the bytecode of the sources under `root` in `folder` until this process ends."""
    sys.path_hooks.insert(0, _path_hook(folder, root))
    _forget_finders(root)


def _path_hook(folder: str, root: str) -> Callable[[str], FileFinder]:
    class Loader(SourceFileLoader):
        """Loads a module. Python compares the size and time of the source with the bytecode's."""

        def get_code(self, fullname: str) -> CodeType | None:
            # This flag also means that Python does not call `set_data`. The module's own code runs
            # after this method, with the original value.
            original, sys.dont_write_bytecode = sys.dont_write_bytecode, False
            try:
                return super().get_code(fullname)
            finally:
                sys.dont_write_bytecode = original

        def get_data(self, path: str) -> bytes:
            is_bytecode = path.endswith(tuple(BYTECODE_SUFFIXES))
            return super().get_data(self._cached(path) if is_bytecode else path)

        def set_data(self, path: str, data: Any, *, _mode: int = 0o600) -> None:
            super().set_data(self._cached(path), data, _mode=0o600)

        def _cached(self, path: str) -> str:
            source = os.path.relpath(os.path.dirname(self.path), root)
            return os.path.join(folder, source, os.path.basename(path))

    create = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (Loader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )

    def hook(path: str) -> FileFinder:
        if not _is_under(os.path.normpath(path), root):
            raise ImportError(f"{path} is not a part of {root}")
        return create(path)  # type: ignore[return-value]

    return hook


def _forget_finders(root: str) -> None:
    for path in [path for path in sys.path_importer_cache if _is_under(path, root)]:
        del sys.path_importer_cache[path]


def _is_under(path: str, root: str) -> bool:
    return path == root or path.startswith(root + os.sep)

"""Finds packages that were installed from a folder rather than from a package index.

The metadata of such a package has a `direct_url.json` that names the folder. An editable install
also has a `.pth` file, which adds a folder to `sys.path`, or a module with an import hook, which
maps the names of packages to folders. Build tools write these files in different forms.
"""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from windlass.model.thread_safe_types import learned
from windlass.packaging.outside.presence import encoded_installs

OURS = "windlass"  # a trial always uses the Windlass that starts it
_MAPPING = re.compile(r"^MAPPING\b[^=\n]*=\s*(\{.*\})\s*$", re.MULTILINE)  # by setuptools
_MODULE = re.compile(r"^F\.map_module(\(.*\))\s*$", re.MULTILINE)  # by the package `editables`


class FolderInstall(msgspec.Struct, frozen=True, array_like=True):
    """A package that was installed from a folder.

    `entries` are the folders that it adds to `sys.path`. `modules` maps names of packages to their
    folders or files. If both are empty, the package is imported in a way that Windlass does not
    know.
    """

    name: str
    folder: str
    is_editable: bool
    entries: tuple[str, ...] = ()
    modules: tuple[tuple[str, str], ...] = ()


def find_folder_installs(cache_dir: Path) -> tuple[FolderInstall, ...]:
    """Return the packages that were installed from a folder, except Windlass itself.

    The result is cached until a package folder changes.
    """
    return _decoded(encoded_installs(cache_dir))


@functools.lru_cache(maxsize=4)
def _decoded(encoded: bytes) -> tuple[FolderInstall, ...]:
    try:
        return msgspec.json.decode(encoded, type=learned(tuple[FolderInstall, ...]))
    except msgspec.MsgspecError:
        return ()


def encode_installs() -> bytes:
    """Find the packages that were installed from a folder, and encode them as a JSON list."""
    return msgspec.json.encode(sorted(_find_installs(), key=lambda install: install.name))


def _find_installs() -> Iterator[FolderInstall]:
    from importlib import metadata

    seen = set()
    for distribution in metadata.distributions():
        try:
            origin = distribution.read_text("direct_url.json")
            if origin is None:
                continue
            name = distribution.metadata["Name"]
            install = _read_install(name, msgspec.json.decode(origin), distribution)
        except Exception:  # noqa: BLE001, S112 - ignore a broken package
            continue
        # The first one on the path is imported.
        if install is not None and name not in seen and name.lower() != OURS:
            seen.add(name)
            yield install


def _read_install(name: str, origin: Any, distribution: Any) -> FolderInstall | None:
    from urllib.parse import unquote, urlsplit

    url = urlsplit(origin["url"])
    if url.scheme != "file" or "dir_info" not in origin:
        return None
    folder = os.path.realpath(unquote(url.path))
    files = [str(file) for file in distribution.files or ()]
    site = str(distribution.locate_file(""))
    if not origin["dir_info"].get("editable"):
        names = sorted({file.partition("/")[0] for file in files if _is_import(file)})
        modules = tuple((name, os.path.join(site, name)) for name in names)
        return FolderInstall(name, folder, False, (), modules)
    entries: list[str] = []
    mapped: list[tuple[str, str]] = []
    for file in files:
        if file.endswith(".pth"):
            entries += _folders_in_pth(site, file)
        elif file.endswith(".py") and "/" not in file:
            mapped += _mapped_modules(Path(site, file).read_text(encoding="utf-8"))
    return FolderInstall(name, folder, True, tuple(entries), tuple(mapped))


def _is_import(file: str) -> bool:
    top = file.partition("/")[0]
    is_module = "/" in file or file.endswith((".py", ".so", ".pyd"))
    is_other = top.endswith((".dist-info", ".data")) or top in ("..", "__pycache__")
    return is_module and not is_other and not os.path.isabs(file)


def _folders_in_pth(site: str, file: str) -> Iterator[str]:
    for line in Path(site, file).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith(("#", "import ", "import\t")):
            yield os.path.normpath(os.path.join(site, line.rstrip()))


def _mapped_modules(text: str) -> Iterator[tuple[str, str]]:
    r"""Return the packages in the import hook of an editable install.

    >>> list(_mapped_modules("MAPPING: dict[str, str] = {'lib': '/code/lib'}\n"))
    [('lib', '/code/lib')]
    >>> list(_mapped_modules("F.map_module('lib', '/code/lib/__init__.py')\n"))
    [('lib', '/code/lib')]
    """
    pairs = [pair for match in _MAPPING.findall(text) for pair in ast.literal_eval(match).items()]
    pairs += [ast.literal_eval(match) for match in _MODULE.findall(text)]
    for name, path in pairs:
        yield name, _existing(path.removesuffix("/__init__.py"))


def _existing(path: str) -> str:
    # A module that is a single file is named without its ending.
    return path if os.path.exists(path) or not os.path.exists(f"{path}.py") else f"{path}.py"

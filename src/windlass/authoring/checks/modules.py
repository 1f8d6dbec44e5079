"""Checks that `python -m` can run a module, without importing the module."""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from windlass.authoring.checks.options import nearest
from windlass.model.errors import shown


def module_flaw(name: Any) -> str:
    """Return why `python -m` cannot run a module, or "" if it can.

    >>> module_flaw("json.tool")
    ''
    >>> module_flaw("json.tol")
    "there is no module 'json.tol'\\nDid you mean 'json.tool'?"
    >>> module_flaw("jsn.tool")
    "there is no module 'jsn.tool'\\nDid you mean 'json.tool'?"
    >>> module_flaw("xml.dom")
    "'xml.dom' is a package without __main__, so python -m cannot run it\\nName a module of it."
    """
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")):
        return _describe_bad_name(name)
    folders: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        whole = ".".join(parts[:depth])
        spec = _find(whole, folders)
        if spec is None:
            return _describe_missing(parts, depth - 1, folders)
        folders = spec.submodule_search_locations
        if folders is None and depth < len(parts):
            return f"{shown(whole)} is a module, not a package, so {shown(name)} does not exist"
    if folders is not None and _find(f"{name}.__main__", folders) is None:
        return (
            f"{shown(name)} is a package without __main__, so python -m cannot run it\n"
            "Name a module of it."
        )
    return ""


def _find(name: str, folders: Sequence[str] | None) -> ModuleSpec | None:
    """Find a module as an import would, but without importing its parent packages."""
    if folders is None:
        spec = PathFinder.find_spec(name, [os.getcwd()])  # as python -m does
        if spec is not None:
            return spec
    for finder in sys.meta_path:  # these include the finders of editable installs
        spec = finder.find_spec(name, folders, None)
        if spec is not None:
            return spec
    return None


def _describe_missing(parts: Sequence[str], wrong: int, folders: Sequence[str] | None) -> str:
    search_path = [os.getcwd(), *sys.path] if folders is None else list(folders)
    near = nearest(parts[wrong], [module.name for module in pkgutil.iter_modules(search_path)])
    rest = parts[wrong + 1 :]
    meant = ".".join([*parts[:wrong], near, *rest]) if near else ""
    guess = ""
    # Suggest a similar package only if it contains the rest of the dotted name.
    if meant and not (rest and module_flaw(meant)):
        guess = f"\nDid you mean {meant!r}?"
    elif folders is None:
        guess = "\nWindlass looked in the working directory and in this environment."
    return f"there is no module {shown('.'.join(parts))}{guess}"


def _describe_bad_name(name: Any) -> str:
    if isinstance(name, str) and name.endswith(".py"):
        meant = name.removesuffix(".py").strip("./").replace(os.sep, ".")
        file = shown(name)
        return f"{file} is a file; write wl.PythonScript({file}), or wl.PythonModule({meant!r})"
    return f"{shown(name)} is not a valid module name; write 'pkg.train'"

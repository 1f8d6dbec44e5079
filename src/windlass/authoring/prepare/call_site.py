"""Determines a caller's project root, working directory and environment."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from windlass.model.errors import SnapshotError
from windlass.model.job import Code, Python
from windlass.packaging.project_files.project_root import (
    Root,
    explicit_root,
    find_root,
    is_installed,
)

_OURS = ("WINDLASS_TRIAL", "WINDLASS_ROLE", "WINDLASS_INDEX", "WINDLASS_ATTEMPT")
_last_environment: tuple[dict[Any, Any], dict[str, str]] | None = None


class CallSite(msgspec.Struct, frozen=True):
    """The project root, working directory and import paths that a call's trial reproduces."""

    root: Root
    workdir: str
    import_paths: tuple[str, ...]
    extra_paths: tuple[str, ...]

    def code(self, tree: str | None) -> Code:
        """Return the `code` field of a job's specification.

        `tree` is the digest of the snapshot.
        """
        return Code(
            tree=tree,
            root=str(self.root.path),
            workdir=self.workdir,
            import_paths=self.import_paths,
        )

    def python(self, packages: tuple[str, ...], lock: str | None, *, embedded: bool) -> Python:
        """Return the `python` field of a job's specification.

        If `embedded`, the server is on this machine, so the trial uses this interpreter.
        """
        return Python(
            executable=sys.executable if embedded else "",
            version=f"{sys.version_info.major}.{sys.version_info.minor}",
            extra_paths=self.extra_paths if embedded else (),
            packages=packages,
            lock=lock,
        )


def read_call_site(
    function: Callable[..., Any] | None = None, script: str | None = None, root: str | None = None
) -> CallSite:
    """Return the call site for a function or script. `root` overrides the project root."""
    here = _here()
    if root is not None:
        return _read_call_site(explicit_root(Path(root), script), here, tuple(sys.path))
    project_root = find_root(script=Path(script) if script else _source_of(function))
    return _read_call_site(project_root, here, tuple(sys.path))


@functools.lru_cache(maxsize=8)
def _read_call_site(root: Root, here: str, paths: tuple[str, ...]) -> CallSite:
    """Return a call site, from the cache if possible.

    Caching is safe, because import paths do not move while a process runs.
    """
    base = os.path.realpath(root.path)
    inside: list[str] = []
    outside: list[str] = []
    for entry in paths:
        path = os.path.realpath(os.path.join(here, entry))
        if not os.path.exists(path) or is_installed(os.path.join(path, "")):
            continue
        if is_within(path, base):
            inside.append(os.path.relpath(path, base))
        else:
            outside.append(path)
    return CallSite(
        root=root,
        workdir=_workdir(base, here),
        import_paths=tuple(dict.fromkeys(inside)),
        extra_paths=tuple(dict.fromkeys(outside)),
    )


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError as error:
        raise SnapshotError(
            "The working directory no longer exists.", hint="Change to an existing directory."
        ) from error


def _source_of(function: Callable[..., Any] | None) -> Path | None:
    """Return the file that determines the project: the function's file, or the main program."""
    if function is None:
        return None  # for a command, the working directory determines the project
    code = getattr(function, "__code__", None)
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    for name in (getattr(code, "co_filename", None), main):
        if name and os.path.isfile(name) and not is_installed(os.path.abspath(name)):
            return Path(os.path.abspath(name))
    return None


def _workdir(base: str, here: str) -> str:
    here = os.path.realpath(here)
    return os.path.relpath(here, base) if is_within(here, base) else "."


def is_within(path: str, base: str) -> bool:
    """Return whether a resolved path is the folder `base` or lies inside this folder."""
    return path == base or path.startswith(base.rstrip(os.sep) + os.sep)


def own_environment() -> Mapping[str, str]:
    """Return this process's environment variables, for a server on this machine."""
    global _last_environment
    # Decoding all variables for each of many trials is slow, so the result is cached.
    raw = getattr(os.environ, "_data", None)
    if _last_environment is None or raw is None or raw != _last_environment[0]:
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OURS) and _is_text(name + value)
        }
        _last_environment = dict(raw or {}), variables
    return _last_environment[1]


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def current_umask() -> int:
    """Return the umask of this process.

    >>> 0 <= current_umask() <= 0o777
    True
    """
    if threading.active_count() > 1:
        try:
            with open("/proc/self/status") as status:
                for line in status:
                    if line.startswith("Umask:"):
                        return int(line.split()[1], 8)
        except OSError:
            pass  # not Linux
    # The only portable way to read the umask is to set it, which affects other threads for a
    # moment.
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def open_file_limit() -> int | None:
    """Return this process's soft limit on open files, or None if there is no limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else max(soft, 3)

"""Where a call is made from: the project's root, the working directory, the import paths."""

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
from windlass.packaging.roots import Root, find_root, given_root, is_installed

_OURS = ("WINDLASS_TRIAL", "WINDLASS_ROLE", "WINDLASS_INDEX", "WINDLASS_ATTEMPT")
_last_environment: tuple[dict[Any, Any], dict[str, str]] | None = None


class Surroundings(msgspec.Struct, frozen=True):
    """The place of a call, as the trial will find it again."""

    root: Root
    workdir: str
    import_paths: tuple[str, ...]
    extra_paths: tuple[str, ...]

    def code(self, tree: str | None) -> Code:
        """The code part of a job."""
        return Code(
            tree=tree,
            root=str(self.root.path),
            workdir=self.workdir,
            import_paths=self.import_paths,
        )

    def python(self, packages: tuple[str, ...], lock: str | None, *, embedded: bool) -> Python:
        """The interpreter part of a job: this very one, if the server shares the machine."""
        return Python(
            executable=sys.executable if embedded else "",
            version=f"{sys.version_info.major}.{sys.version_info.minor}",
            extra_paths=self.extra_paths if embedded else (),
            packages=packages,
            lock=lock,
        )


def look_around(
    function: Callable[..., Any] | None = None, script: str | None = None, root: str | None = None
) -> Surroundings:
    """What surrounds a call of a function, or of a script, in the root that is given, if one is."""
    here = _here()
    if root is not None:
        return _look_around(given_root(Path(root), script), here, tuple(sys.path))
    found = find_root(script=Path(script) if script else _source_of(function))
    return _look_around(found, here, tuple(sys.path))


@functools.lru_cache(maxsize=8)
def _look_around(root: Root, here: str, paths: tuple[str, ...]) -> Surroundings:
    """The same again for the next call: where the paths lead does not change while we run."""
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
    return Surroundings(
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
            "The working directory does not exist any more.", hint="Change to one that does."
        ) from error


def _source_of(function: Callable[..., Any] | None) -> Path | None:
    """The file to look for the project from: the function's own, else the program's."""
    if function is None:
        return None  # a command: the project is where it was typed
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
    """Whether a path, without links, is a folder or something in it."""
    return path == base or path.startswith(base.rstrip(os.sep) + os.sep)


def own_environment() -> Mapping[str, str]:
    """The variables of this process that go along to a server on this machine, of this user."""
    global _last_environment
    # Reading them takes a decoding each: those that add many trials have it done once.
    raw = getattr(os.environ, "_data", None)
    if _last_environment is None or raw is None or raw != _last_environment[0]:
        found = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(_OURS) and _is_text(name + value)
        }
        _last_environment = dict(raw or {}), found
    return _last_environment[1]


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def current_umask() -> int:
    """Which permissions files made here do not get.

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
    # Setting it is the quick way, and elsewhere the only one; another thread could be misled.
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def open_file_limit() -> int | None:
    """How many files a process may have open here, if there is a limit."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else max(soft, 3)

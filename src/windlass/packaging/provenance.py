"""Collects a trial's provenance: user, machine, interpreter and code version."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from windlass.model.records import Git, Provenance
from windlass.packaging.package_cache import cached_by_packages
from windlass.packaging.project_files.git import GitStatus
from windlass.version import __version__

_ARGV_LIMIT = 200


def git_state(root: Path) -> Git | None:
    """Return a folder's commit, branch and dirty flag, or None if git fails.

    This call waits for git. To run git while a snapshot is taken, write:

        status = GitStatus(str(root.path))
        snapshot = take_snapshot(root, cache_dir, status=status)
        git = status.state()
    """
    return GitStatus(str(root)).state()


def installed_packages(cache_dir: Path) -> bytes:
    """Return this interpreter's packages, as sorted lines such as `numpy==2.1.0`.

    A comment marks packages that were not installed from a package index. The result is cached
    until a package folder changes.
    """
    return cached_by_packages(cache_dir, "packages", _list_packages)


def collect(
    git: Git | None = None, *, packages: str | None = None, files: int = 0, size: int = 0
) -> Provenance:
    """Return this process's provenance, including facts about the code from the caller.

    >>> collect().python == sys.version.split()[0]
    True
    """
    return Provenance(
        user=user_name(),
        host=os.uname().nodename,
        platform=_platform(),
        python=sys.version.split()[0],
        executable=sys.executable or "",
        argv=tuple(_text(argument) for argument in sys.argv[:_ARGV_LIMIT]),
        windlass=__version__,
        git=git,
        packages=packages,
        tree_files=files,
        tree_size=size,
    )


def _list_packages() -> bytes:
    from windlass.worker.supervise.package_list import list_packages

    return "".join(f"{line}\n" for line in list_packages()).encode("utf-8", "replace")


def _platform() -> str:
    system = os.uname()
    return f"{system.sysname}-{system.release}-{system.machine}"


def user_name() -> str:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        if user := os.environ.get(name):
            return _text(user)
    return _name_of(os.getuid())


@functools.cache
def _name_of(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user in a container may have no name
        return str(uid)


def _text(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

"""Small and read-only file systems, mounted in private namespaces without root."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec

import pytest

from harness import PATIENCE

P = ParamSpec("P")
_INSIDE = "WINDLASS_TEST_MOUNTS"
_OWN_MOUNTS = ["unshare", "--user", "--map-root-user", "--mount"]


def in_own_mounts(test: Callable[P, None]) -> Callable[P, None]:
    """Run a test again in its own namespaces, where it may mount file systems.

    The kernel removes them with the last process, so that a killed test leaves no mount behind.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if os.environ.get(_INSIDE):
            test(*args, **kwargs)
            return
        if why := _why_not():
            pytest.skip(f"mounting is not permitted here: {why}")
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        with tempfile.TemporaryDirectory(prefix="wl-") as folder:  # short, for socket paths
            pytest_there = [sys.executable, "-m", "pytest", "-p", "pytest_timeout"]
            options = ["-p", "no:cacheprovider", "--basetemp", f"{folder}/t"]
            done = subprocess.run(
                [*_OWN_MOUNTS, *pytest_there, *options, node],
                env={**os.environ, _INSIDE: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=10 * PATIENCE,
                check=False,
            )
        print(done.stdout, done.stderr)
        assert done.returncode == 0, "failed in namespaces of its own: see its output"

    return run


@functools.cache
def _why_not() -> str:
    """Return the reason why mounting is impossible, or an empty text."""
    try:
        trial = ["sh", "-c", "mount -t tmpfs -o size=1m none /mnt"]
        done = subprocess.run([*_OWN_MOUNTS, *trial], capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else ""


@contextlib.contextmanager
def small_disk(path: Path, **limits: str) -> Iterator[Path]:
    """A file system in memory with these limits: `size="16m"`, `nr_inodes="200"`."""
    path.mkdir()
    options = ",".join(f"{name}={limit}" for name, limit in limits.items())
    _do("mount", "-t", "tmpfs", "-o", options, "none", str(path))
    try:
        yield path
    finally:
        _do("umount", "--lazy", str(path))


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Make a directory read-only for a while, also for root."""
    _do("mount", "--bind", str(path), str(path))
    try:
        _do("mount", "-o", "remount,bind,ro", str(path))
        yield
    finally:
        _do("umount", "--lazy", str(path))


def take_space(path: Path, leave: int = 0) -> None:
    """Fill a file system except for this many bytes."""
    with (path / "hog").open("wb") as file:
        while (room := _free(path) - leave) > 0:
            with contextlib.suppress(OSError):  # other processes take some space meanwhile
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, room)


def take_inodes(path: Path, leave: int = 0) -> None:
    """Use up the inodes of a file system except for this many."""
    for _ in range(os.statvfs(path).f_favail - leave):
        os.close(tempfile.mkstemp(prefix="hog-", dir=path)[0])


def give_back(path: Path) -> None:
    """Free the space and inodes again."""
    for hog in path.glob("hog*"):
        hog.unlink()


def _free(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"

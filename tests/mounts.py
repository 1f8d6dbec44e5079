"""Small and read-only file systems, mounted where nobody else sees them and no root is needed."""

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
    """Run a test again in namespaces of its own, in which it may mount things.

    They vanish with its last process: a test that is killed leaves no mount behind.
    """

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        if os.environ.get(_INSIDE):
            test(*args, **kwargs)
            return
        if why := _why_not():
            pytest.skip(f"mounting is not permitted here: {why}")
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        with tempfile.TemporaryDirectory(prefix="wl-") as folder:  # short: sockets are in there
            pytest_there = [sys.executable, "-m", "pytest", "--basetemp", f"{folder}/t"]
            done = subprocess.run(
                [*_OWN_MOUNTS, *pytest_there, "-p", "no:cacheprovider", node],
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
    """What is in the way of mounting; nothing if nothing is."""
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
    """A directory in which nothing can be written for a while, whoever tries."""
    _do("mount", "--bind", str(path), str(path))
    try:
        _do("mount", "-o", "remount,bind,ro", str(path))
        yield
    finally:
        _do("umount", "--lazy", str(path))


def take_space(path: Path, leave: int = 0) -> None:
    """Take the space of a file system, but for so many bytes."""
    with (path / "hog").open("wb") as file:
        while (room := _free(path) - leave) > 0:
            with contextlib.suppress(OSError):  # others take some meanwhile
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, room)


def take_inodes(path: Path, leave: int = 0) -> None:
    """Take the numbers of files that a file system has, but for so many."""
    for _ in range(os.statvfs(path).f_favail - leave):
        os.close(tempfile.mkstemp(prefix="hog-", dir=path)[0])


def give_back(path: Path) -> None:
    """Give back what was taken."""
    for hog in path.glob("hog*"):
        hog.unlink()


def _free(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _do(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"

"""Creates and caches virtual environments for `packages=`, with uv.

An environment adds its packages to those of the author's interpreter.
"""

from __future__ import annotations

import os

from windlass.worker.common.atomic_files import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_MARKER = "complete"

# Adds the packages of the author's interpreter to the import path, after the new packages.
_SHOW_OWN_PACKAGES = """
import glob, os, site, sys
folders = site.getsitepackages()
if site.ENABLE_USER_SITE:
    folders.append(site.getusersitepackages())
[target] = glob.glob(os.path.join(sys.argv[1], "lib", "python*", "site-packages"))
with open(os.path.join(target, "_windlass_author.pth"), "w") as file:
    for folder in folders:
        if os.path.isdir(folder):
            file.write("import site; site.addsitedir(%r)\\n" % folder)
"""


def name_here(name: str) -> str:
    """Return a name that is specific to this interpreter and operating system.

    An environment fits only one interpreter, but containers with different interpreters may share a
    folder.
    """
    import hashlib
    import platform
    import sys

    platform_key = [sys.version_info[:2], sys.executable, os.uname().machine, platform.libc_ver()]
    return f"{name}-{hashlib.sha256(repr(platform_key).encode()).hexdigest()[:16]}"


class Environment:
    """A virtual environment and the commands that create it."""

    def __init__(self, spec: Mapping[str, str], author_python: str) -> None:
        self.target = spec["target"]
        self._lock = spec["lock"]
        self._uv = spec["uv"]
        self._author_python = author_python

    @property
    def python(self) -> str:
        return os.path.join(self.target, "bin", "python")

    @property
    def is_complete(self) -> bool:
        """Return whether the environment is complete.

        A marker file, which is written last, shows this.
        """
        return os.path.exists(os.path.join(self.target, _MARKER))

    def package_count(self) -> int:
        """The number of packages in the environment's lock file."""
        with open(self._lock, "rb") as file:
            return sum(line[:1].isalnum() for line in file)

    def prepare(self) -> None:
        """Delete an incomplete environment left behind by an interrupted attempt."""
        import shutil

        if os.path.lexists(self.target):
            shutil.rmtree(self.target)
        make_folder(os.path.dirname(self.target))

    def commands(self) -> list[list[str]]:
        """Return the commands that create the virtual environment, in order."""
        quiet = ["--no-progress", "--color", "never"]
        return [
            [self._uv, "venv", "--quiet", "--no-project", "--python", self._author_python,
             *quiet, self.target],
            # The lock file lists all dependencies, so uv does not resolve them again.
            [self._uv, "pip", "install", "--no-deps", "--python", self.python, *quiet,
             "-r", self._lock],
            [self._author_python, "-c", _SHOW_OWN_PACKAGES, self.target],
        ]  # fmt: skip

    def environ(self, author: Mapping[str, str]) -> dict[str, str]:
        """Return the variables for uv, including the author's and the job's index settings.

        Variables that would redirect uv to a different environment are left out.
        """
        kept = dict(author)
        for name in ("VIRTUAL_ENV", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH"):
            kept.pop(name, None)
        return kept

    def finish(self) -> None:
        """Mark the virtual environment as complete."""
        with open(os.path.join(self.target, _MARKER), "wb"):
            pass

"""The version of a build, and the module that states it in the wheel and the source archive."""

from __future__ import annotations

import os
import runpy
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
VERSION_MODULE = "src/windlass/version.py"


def build_version() -> str:
    """The version of the commit, with the content of the tree if that is another."""
    version: str = runpy.run_path(str(ROOT / VERSION_MODULE))["__version__"]
    tree = _changed_tree()
    return f"{version}{'.' if '+' in version else '+'}d{tree[:10]}" if tree else version


class VersionHook(BuildHookInterface):  # type: ignore[misc]  # hatchling is there in builds alone
    """Put a module of one line in place of the one that asks git."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()  # it goes with the hook
        module = Path(self._folder.name, "version.py")
        module.write_text(f'__version__ = "{self.metadata.version}"\n')
        path = VERSION_MODULE.removeprefix("src/" if self.target_name == "wheel" else "")
        build_data["force_include"][str(module)] = path


def _changed_tree() -> str:
    """The git tree of all files that are not ignored, unless it is that of the commit."""
    if not (ROOT / ".git").exists():
        return ""
    with tempfile.TemporaryDirectory() as folder:
        index = str(Path(folder, "index"))
        try:
            _git("read-tree", "HEAD", index=index)
            _git("add", "--all", index=index)
            tree = _git("write-tree", index=index)
            return "" if tree == _git("rev-parse", "HEAD^{tree}", index=index) else tree
        except (OSError, subprocess.CalledProcessError):
            return ""  # without git, nothing but the commit is known


def _git(*arguments: str, index: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments],
        env={**env, "GIT_INDEX_FILE": index},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()

"""Where Python may not write bytecode, the server and its workers cache their own in the home."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import windlass
from harness import PATIENCE, stop_server

SCRIPT = """
import sys
import windlass as wl

@wl.run
def settings():
    hooks = [hook.__module__ for hook in sys.path_hooks if "windlass" in hook.__module__]
    return sys.dont_write_bytecode, sys.pycache_prefix, hooks

if __name__ == "__main__":
    print(settings())
"""


def test_the_second_start_compiles_nothing(tmp_path: Path) -> None:
    installed, home = tmp_path / "installed", tmp_path / "home"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.dirname(windlass.__file__), installed / "windlass", ignore=ignored)
    (tmp_path / "script.py").write_text(SCRIPT)
    own = {"WINDLASS_HOME": str(home), "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}

    def start_and_stop() -> dict[str, int]:
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert done.stdout == "(True, None, [])\n"
        stop_server(home)
        files = (home / "cache/bytecode").rglob("*.pyc")
        return {file.name.partition(".")[0]: file.stat().st_mtime_ns for file in files}

    others = [home / "cache/bytecode" / f"other-{number}" for number in range(5)]
    home.mkdir(mode=0o700)
    for folder in others:
        folder.mkdir(mode=0o700, parents=True)
    compiled = start_and_stop()
    assert {"startup", "warm_fork"} <= compiled.keys()
    assert sum(folder.exists() for folder in others) == 3
    assert start_and_stop() == compiled
    assert not [*installed.rglob("*.pyc")]
    assert {path.stat().st_mode & 0o77 for path in (home / "cache/bytecode").rglob("*")} == {0}

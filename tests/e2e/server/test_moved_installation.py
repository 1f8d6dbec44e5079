"""A server whose virtual environment was moved or deleted does not keep trials from starting."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import windlass
from harness import PATIENCE

pytestmark = pytest.mark.finding("U4")


class Environment:
    """A virtual environment with a copy of Windlass."""

    def __init__(self, path: Path, home: Path) -> None:
        self.path = path
        self._home = home
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", "--symlinks", path], check=True
        )
        (self.packages / "others.pth").write_text(sysconfig.get_path("purelib"))
        own = os.path.dirname(windlass.__file__)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(own, self.packages / "windlass", ignore=ignored)

    @property
    def packages(self) -> Path:
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        return self.path / "lib" / version / "site-packages"

    def __call__(self, *words: str, python: str | Path = "") -> subprocess.CompletedProcess[str]:
        """Run a command of this copy of Windlass."""
        environ = {**os.environ, "WINDLASS_HOME": str(self._home), "WINDLASS_REPORT_WAITS": "2"}
        environ |= {"PYTHONPATH": str(self.packages)} if python else {}
        return subprocess.run(
            [python or self.path / "bin/python", "-m", "windlass", *words],
            cwd=self.path.parent,
            env=environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def server(self) -> dict[str, str]:
        [finding] = [
            finding
            for finding in json.loads(self("doctor", "--json").stdout)
            if finding["check"] == "server"
        ]
        return dict(finding)


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Environment]:
    environment = Environment(tmp_path / "env", tmp_path / "home")
    assert environment("run", "--", "echo", "one").stdout == "one\n"
    yield environment
    environment("server", "stop")


@pytest.mark.thorough
def test_a_moved_environment(environment: Environment, tmp_path: Path) -> None:
    environment.path = environment.path.rename(tmp_path / "moved")
    assert environment.server()["level"] == "warning"
    began = time.monotonic()
    done = environment("run", "--", "echo", "two")
    assert (done.stdout, done.returncode) == ("two\n", 0), done.stderr
    if time.monotonic() - began > 4:
        assert "cannot start yet: the server's installation was moved or deleted" in done.stderr
    assert environment.server()["level"] == "ok"


def test_a_deleted_interpreter(environment: Environment) -> None:
    (environment.path / "bin").rename(environment.path / "deleted")
    done = environment("run", "--", "echo", "two", python=sys.executable)
    assert (done.stdout, done.returncode) == ("two\n", 0), done.stderr
    doctor = environment("doctor", python=sys.executable)
    assert "its interpreter was moved or deleted" in doctor.stdout
    (environment.path / "deleted").rename(environment.path / "bin")

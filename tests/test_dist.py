"""The wheel and the source archive are complete, reproducible, and usable without a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from harness import BIN, PATIENCE
from windlass.version import __version__

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parent.parent
UV = str(BIN / "uv")


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env={**inherited, **env}, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make dist` builds it: from the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--out-dir", folder, ROOT, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel


def test_the_wheel_holds_all_files_of_the_package(wheel: Path) -> None:
    listed = run("git", "ls-files", "-co", "--exclude-standard", "src", cwd=ROOT).splitlines()
    expected = {name.removeprefix("src/") for name in listed if (ROOT / name).exists()}
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("windlass/")]
        [entry_points] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "windlass = windlass.cli.main:main" in archive.read(entry_points).decode()
    assert sorted(names) == sorted(expected)
    assert {"windlass/py.typed", "windlass/operator/definitions/tfjobs.yaml"} <= expected
    assert [name for name in names if name.endswith(".sql")]


def test_checkout_and_source_archive_build_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    run(UV, "build", "--wheel", "--out-dir", tmp_path, ROOT, cwd=tmp_path)
    [direct] = tmp_path.glob("*.whl")
    assert direct.name == wheel.name
    assert direct.read_bytes() == wheel.read_bytes()


def test_the_wheel_runs_the_quickstart_in_a_new_environment(wheel: Path, tmp_path: Path) -> None:
    run(UV, "venv", "--quiet", "--python", BIN / "python", "env", cwd=tmp_path)
    python = tmp_path / "env" / "bin" / "python"
    run(UV, "pip", "install", "--quiet", "--python", python, f"{wheel}[examples]", cwd=tmp_path)
    shutil.copy(ROOT / "examples" / "quickstart.py", tmp_path)
    windlass = tmp_path / "env" / "bin" / "windlass"
    home = str(tmp_path / "home")
    version = wheel.name.split("-")[1]
    try:
        output = run(python, "quickstart.py", cwd=tmp_path, WINDLASS_HOME=home)
        assert "metrics 1 2 3 loss --plot --log\nA  loss  trial 1 (train)" in output
        assert "windlass compare 1 2 3" in output
        assert run(windlass, "ls", cwd=tmp_path, WINDLASS_HOME=home).count("SUCCEEDED") == 3
        assert run(windlass, "--version", cwd=tmp_path) == f"windlass {version}\n"
        status = run(windlass, "server", "status", cwd=tmp_path, WINDLASS_HOME=home)
        assert f"version  {version}\n" in status
    finally:
        run(windlass, "server", "stop", cwd=tmp_path, WINDLASS_HOME=home)
    commit, own_commit = (
        text.partition("+")[2].partition(".")[0] for text in (version, __version__)
    )
    assert commit == own_commit

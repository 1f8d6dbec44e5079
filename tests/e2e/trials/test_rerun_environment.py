"""Reruns after their environment changed: reported, and rebuilt by the real uv."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import msgspec
import pytest

import windlass as wl
from harness import BIN, Project
from windlass.client.client import default_client
from windlass.packaging.environments import find_uv

SHARES_HOME = True

SCRIPT = """
    import json
    import sys
    import warnings
    from importlib.metadata import version

    import windlass as wl


    @wl.run(cpus=0.25)
    def versions():
        import iniconfig
        return version("iniconfig"), iniconfig.__file__, len(sys.argv)


    what, *rest = sys.argv[1:]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if what == "submit":
            options = {"packages": rest} if rest else {}
            trial = versions.options(**options).submit()
        else:
            trial = wl.get_trial(int(rest[0])).rerun(**json.loads(rest[1]))
    said = [str(each.message) for each in caught]
    print(json.dumps({"id": trial.id, "value": trial.result(), "said": said}))
    """


class Author(NamedTuple):
    """An author with a separate environment."""

    project: Project
    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *packages: str) -> None:
        """Install these packages."""
        command = [find_uv(), "pip", "install", "-q", "--python", str(self.python), *packages]
        subprocess.run(command, check=True, cwd="/")

    def does(self, *args: str) -> dict[str, Any]:
        """Run the script and return its output, decoded from JSON."""
        done = self.project.run(self.python, "author.py", *args)
        assert done.returncode == 0, done.stderr
        output: dict[str, Any] = json.loads(done.stdout)
        return output

    def fails(self, *args: str) -> str:
        """Run the script, expect a failure, and return its error output."""
        done = self.project.run(self.python, "author.py", *args)
        assert done.returncode == 1, done.stdout
        return done.stderr


@pytest.fixture
def author(home: Path, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Author:
    """An author with iniconfig 2.0.0 as the only listed package."""
    default_client().server_info()  # the server runs in this environment
    monkeypatch.setenv("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")  # uv is available
    project.write("author.py", SCRIPT)
    made = make_environment(tmp_path / "env", tmp_path / "lib")
    environment_author = Author(project, made)
    environment_author.install("iniconfig==2.0.0")
    return environment_author


def make_environment(folder: Path, library: Path) -> Path:
    """An environment in which Windlass can be imported, but is not installed."""
    library.mkdir()
    for module in (wl, msgspec, cloudpickle):
        source = Path(str(module.__file__)).parent
        (library / source.name).symlink_to(source)
    make = [find_uv(), "venv", "-q", "--no-project", "--python", sys.executable, str(folder)]
    subprocess.run(make, check=True, cwd="/")
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "library.pth").write_text(f"{library}\n")
    return folder


def test_a_rerun_reports_changed_packages_and_can_rebuild_the_recorded_ones(author: Author) -> None:
    first = author.does("submit")
    assert first["value"][0] == "2.0.0"
    same = author.does("rerun", str(first["id"]), "{}")
    assert (same["value"], same["said"]) == (first["value"], [])
    author.install("iniconfig==2.1.0", "sniffio==1.3.1")

    now = author.does("rerun", str(first["id"]), "{}")
    assert now["value"][0] == "2.1.0"
    [line] = now["said"]
    assert "2 packages: iniconfig 2.0.0 -> 2.1.0, sniffio 1.3.1 is new" in line
    assert 'environment="recorded"' in line

    recorded = author.does("rerun", str(first["id"]), '{"environment": "recorded"}')
    assert recorded["value"][0] == "2.0.0"
    assert "/envs/" in recorded["value"][1]
    assert recorded["said"] == [
        f"The environment of trial {first['id']} is rebuilt, except for: "
        "1 package: sniffio 1.3.1 is new"
    ]

    # A rerun of that trial has its packages, too, and prints no notice.
    again = author.does("rerun", str(recorded["id"]), "{}")
    assert (again["value"], again["said"]) == (recorded["value"], [])
    # A rerun of the trial with the new packages has the same packages.
    third = author.does("rerun", str(now["id"]), '{"environment": "recorded"}')
    assert (third["value"], third["said"]) == (now["value"], [])


@pytest.mark.thorough
def test_the_packages_of_the_trial_itself_do_not_change(author: Author) -> None:
    first = author.does("submit", "iniconfig==1.1.1")
    assert first["value"][0] == "1.1.1"
    author.install("iniconfig==2.1.0")
    for changes in ("{}", '{"environment": "recorded"}'):
        again = author.does("rerun", str(first["id"]), changes)
        assert (again["value"], again["said"]) == (first["value"], [])
    trial = wl.get_trial(again["id"])
    assert trial.record.spec.python.packages == ("iniconfig==1.1.1",)


@pytest.mark.thorough
def test_a_deleted_interpreter_raises_an_error_and_another_one_can_replace_it(
    author: Author, tmp_path: Path
) -> None:
    first = author.does("submit")
    python = author.python
    shutil.rmtree(author.folder)
    other = Author(author.project, make_environment(tmp_path / "other", tmp_path / "other-lib"))
    message = other.fails("rerun", str(first["id"]), "{}")
    assert f"ran with {python}, which no longer exists." in message
    assert 'Rebuild its packages on this Python: environment="recorded"' in message
    again = other.does("rerun", str(first["id"]), '{"environment": "recorded"}')
    assert again["value"][0] == "2.0.0"
    assert again["said"] == [
        f"Trial {first['id']} (versions) ran with {python}, which no longer exists. "
        f"Windlass uses this one: {other.python}"
    ]
    assert wl.get_trial(again["id"]).record.spec.python.executable == str(other.python)


@pytest.mark.thorough
def test_an_interpreter_of_another_version_raises_an_error(author: Author) -> None:
    first = author.does("submit")
    author.python.unlink()
    author.python.write_text("#!/bin/sh\necho '[\"3.7.1\", []]'\n")
    author.python.chmod(0o755)
    with pytest.raises(wl.InvalidArgument, match=r"which is now Python 3\.7, not"):
        wl.get_trial(first["id"]).rerun()

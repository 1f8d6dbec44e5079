"""`deploy/Dockerfile`: what it copies is there, and what it installs is all of the package."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from kube.cluster.dockerfile import DOCKERFILE, PROJECT, Stage, stages
from kube.cluster.images import PACKAGES
from kube.deploying import DEPLOY, NAMED
from windlass.authoring.tomllines import loads

PACKAGE = PROJECT / "src" / "windlass"


@pytest.fixture(scope="module")
def worker() -> Stage:
    return stages(DOCKERFILE.read_text())["worker"]


@pytest.fixture(scope="module")
def windlass() -> Stage:
    return stages(DOCKERFILE.read_text())["windlass"]


def copied(stage: Stage) -> list[tuple[str, str]]:
    """What is copied, and to where."""
    found = []
    for word, rest in stage.steps:
        if word == "COPY":
            *sources, target = shlex.split(rest)
            found += [(source, target) for source in sources]
    return found


def test_images_are_not_roots_and_say_what_they_run(worker: Stage, windlass: Stage) -> None:
    assert worker.base == "python:${PYTHON}-slim"
    assert windlass.base == "worker"
    assert (worker.user, worker.command) == ("1000", ("python3",))
    assert (windlass.user, windlass.command) == ("1000", ("windlass",))
    assert worker.folder == windlass.folder == "/home/worker"
    assert windlass.env == worker.env
    assert windlass.env["PYTHONUNBUFFERED"] == "1"


def test_what_is_copied_is_there_and_is_given_to_the_engine(windlass: Stage) -> None:
    ignoring = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in ignoring if line.startswith("!")]
    assert [line for line in ignoring if line and line[0] not in "!#"] == ["*", "**/__pycache__"]
    sources = [source for source, _ in copied(windlass)]
    assert sorted(sources) == sorted(let_in)
    for source in sources:
        assert (PROJECT / source).exists(), source


def test_what_the_package_is_built_from_is_copied(windlass: Stage) -> None:
    project = loads((PROJECT / "pyproject.toml").read_text())
    sources = [source for source, _ in copied(windlass)]
    named = [project["project"]["readme"], *project["project"]["license-files"]]
    built = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    for path in [*named, project["tool"]["hatch"]["version"]["path"], *built]:
        assert any(path == each or fnmatch(path, f"{each}/*") for each in sources), path
    assert "kubernetes" in project["project"]["optional-dependencies"]
    [install] = [rest for word, rest in windlass.steps if word == "RUN"]
    assert "'/build[kubernetes]'" in install
    assert {target.rstrip("/") for _, target in copied(windlass)} == {"/build", "/build/src"}


def test_the_package_built_from_what_is_copied_is_whole(windlass: Stage, tmp_path: Path) -> None:
    build = tmp_path / "build"
    for source, target in copied(windlass):
        there = tmp_path / target.lstrip("/")
        if (PROJECT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PROJECT / source, there, ignore=ignored)
        else:
            there.mkdir(parents=True, exist_ok=True)
            shutil.copy2(PROJECT / source, there)
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", build]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = (tmp_path / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("windlass/")}
        [entries] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "windlass = windlass.cli.main:main" in archive.read(entries).decode()
    wanted = {
        f"windlass/{path.relative_to(PACKAGE)}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == wanted
    assert "windlass/operator/definitions/tfjobs.yaml" in inside


def test_what_the_worker_has_of_debian_is_in_the_image_of_the_tests(worker: Stage) -> None:
    [step] = [rest for word, rest in worker.steps if "apt-get install" in rest]
    words = shlex.split(step.partition("apt-get install")[2].partition("&&")[0])
    packages = [word for word in words if not word.startswith("-")]
    assert packages
    assert set(packages) <= set(PACKAGES)


def test_the_manifests_name_the_image_that_it_makes() -> None:
    name = NAMED.split(":")[1].strip()
    assert f"--tag {name} ." in DOCKERFILE.read_text()
    for manifest in ("operator.yaml", "server.yaml"):
        text = (DEPLOY / manifest).read_text()
        assert text.count(NAMED) == 1
        # What a user is told to do names another in its place, and nothing else.
        told = re.search(r"sed 's\|(.+?)\|(.+?)\|'", text)
        assert told is not None
        other = text.replace(told[1], told[2])
        images = re.findall(r"^\s+(?:- )?image: (\S+)", other, re.MULTILINE)
        assert images == ["registry.lab.example/windlass:latest"]

"""`deploy/Dockerfile`: its images, and the packages in them."""

from __future__ import annotations

import re
import shlex

import pytest

from on_kubernetes.cluster.builds.dockerfile import DOCKERFILE, PROJECT, Stage, stages
from on_kubernetes.cluster.builds.images import PACKAGES
from on_kubernetes.deploy.manifests import DEPLOY, NAMED
from windlass.authoring.checks.toml_lines import loads


@pytest.fixture(scope="module")
def worker() -> Stage:
    return stages(DOCKERFILE.read_text())["worker"]


@pytest.fixture(scope="module")
def windlass() -> Stage:
    return stages(DOCKERFILE.read_text())["windlass"]


def copied(stage: Stage) -> list[tuple[str, str]]:
    """The copied files, with their targets."""
    names = []
    for word, rest in stage.steps:
        if word == "COPY":
            *sources, target = shlex.split(rest)
            names += [(source, target) for source in sources]
    return names


def test_images_do_not_run_as_root_and_have_a_command(worker: Stage, windlass: Stage) -> None:
    assert worker.base == "python:${PYTHON}-slim"
    assert windlass.base == "worker"
    assert (worker.user, worker.command) == ("1000", ("python3",))
    assert (windlass.user, windlass.command) == ("1000", ("windlass",))
    assert worker.folder == windlass.folder == "/home/worker"
    assert windlass.env == worker.env
    assert windlass.env["PYTHONUNBUFFERED"] == "1"


def test_the_image_has_the_wheel_and_the_kubernetes_extra(windlass: Stage) -> None:
    ignoring = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert [line for line in ignoring if line and line[0] != "#"] == ["*", "!dist/*.whl"]
    assert copied(windlass) == [("dist/*.whl", "/build/")]
    [install] = [rest for word, rest in windlass.steps if word == "RUN"]
    assert '"$(echo /build/*.whl)[kubernetes]"' in install
    project = loads((PROJECT / "pyproject.toml").read_text())
    assert "kubernetes" in project["project"]["optional-dependencies"]


def test_the_debian_packages_of_the_worker_are_in_the_image_of_the_tests(worker: Stage) -> None:
    [step] = [rest for word, rest in worker.steps if "apt-get install" in rest]
    words = shlex.split(step.partition("apt-get install")[2].partition("&&")[0])
    packages = [word for word in words if not word.startswith("-")]
    assert packages
    assert set(packages) <= set(PACKAGES)


def test_the_manifests_name_the_built_image() -> None:
    name = NAMED.split(":")[1].strip()
    assert f"--tag {name} ." in DOCKERFILE.read_text()
    for manifest in ("operator.yaml", "server.yaml"):
        text = (DEPLOY / manifest).read_text()
        assert text.count(NAMED) == 1
        # The instructions for users replace only this name.
        match = re.search(r"sed 's\|(.+?)\|(.+?)\|'", text)
        assert match is not None
        other = text.replace(match[1], match[2])
        images = re.findall(r"^\s+(?:- )?image: (\S+)", other, re.MULTILINE)
        assert images == ["registry.lab.example/windlass:latest"]

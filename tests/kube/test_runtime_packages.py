"""`packages=` of trials in pods: installed there by uv, and once where there is a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE
from kube.access import Cluster
from kube.mounts import package_index
from kube.pods import Namespace
from kube.programs import look_at_iniconfig
from kube.trials import said, there

pytestmark = pytest.mark.usefixtures("home_with_cluster", "own_cluster")

PACKAGES = ["iniconfig==1.1.1"]
INSTALLED = "iniconfig==1.1.1"  # what uv says when it has done so


def looking(
    namespace: Namespace, volumes: dict[str, str] | None = None, **more: Any
) -> wl.Trial[Any]:
    """A trial that looks at what was installed for it, when it is over."""
    index = package_index()
    job = wl.Job(
        wl.PythonFunction(look_at_iniconfig),
        packages=PACKAGES,
        env=index.env,
        executor=there(namespace, volumes={**index.sources, **(volumes or {})}, **more),
    )
    trial = job.submit()
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", [trial.message, *said(trial)]
    return trial


def installs(trial: wl.Trial[Any]) -> bool:
    return any(INSTALLED in line for line in said(trial))


@pytest.mark.slow
def test_without_a_cache_each_pod_installs_its_packages(namespace: Namespace) -> None:
    for _ in range(2):
        trial = looking(namespace)
        version, place = trial.result()
        assert version == "1.1.1" and place.startswith("/windlass-home/")
        assert installs(trial)


def test_with_a_cache_the_second_pod_finds_what_the_first_installed(
    own_cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)  # in pods they are another user
    first = looking(namespace, {"/windlass-cache": f"host:{cache}"})
    second = looking(namespace, {"/windlass-cache": f"host:{cache}"})
    assert installs(first) and not installs(second)
    assert first.result() == second.result()
    assert first.result()[1].startswith("/windlass-cache/envs/")
    assert len([each for each in (cache / "envs").iterdir() if each.is_dir()]) == 1


def test_an_image_without_uv_has_it_brought_from_where_packages_come_from(
    namespace: Namespace,
) -> None:
    """What the job says of its index is said of uv, too: nothing else in the pod tells of it."""
    hidden = [{"name": "PATH", "value": "/usr/bin:/bin"}]  # where the image's uv is not
    trial = looking(namespace, pod_patch={"containers": [{"name": "main", "env": hidden}]})
    assert installs(trial)
    assert trial.result()[0] == "1.1.1"

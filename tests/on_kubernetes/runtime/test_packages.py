"""`packages=` of trials in pods: installed there by uv, and only once with a cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import windlass as wl
from harness import PATIENCE
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pod_mounts import package_index
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trial_functions import look_at_iniconfig
from on_kubernetes.runtime.trials import log_lines, there

pytestmark = pytest.mark.usefixtures("home_with_cluster", "own_cluster")

PACKAGES = ["iniconfig==1.1.1"]
INSTALLED = "iniconfig==1.1.1"  # the message of uv after an installation


def looking(
    namespace: Namespace, volumes: dict[str, str] | None = None, **more: Any
) -> wl.Trial[Any]:
    """A finished trial that reports its installed packages."""
    index = package_index()
    job = wl.Job(
        wl.PythonFunction(look_at_iniconfig),
        packages=PACKAGES,
        env=index.env,
        executor=there(namespace, volumes={**index.sources, **(volumes or {})}, **more),
    )
    trial = job.submit()
    trial.wait(timeout=2 * PATIENCE)
    assert trial.state == "SUCCEEDED", [trial.message, *log_lines(trial)]
    return trial


def installs(trial: wl.Trial[Any]) -> bool:
    return any(INSTALLED in line for line in log_lines(trial))


@pytest.mark.thorough
def test_without_a_cache_each_pod_installs_its_packages(namespace: Namespace) -> None:
    for _ in range(2):
        trial = looking(namespace)
        version, place = trial.result()
        assert version == "1.1.1" and place.startswith("/windlass-home/")
        assert installs(trial)


def test_with_a_cache_the_second_pod_reuses_the_packages_of_the_first(
    own_cluster: Cluster, namespace: Namespace, tmp_path: Path
) -> None:
    """The first has an image without uv, which comes from the index that the job names."""
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)  # in pods the user is another one
    without_uv = [{"name": "PATH", "value": "/usr/bin:/bin"}]
    patch = {"containers": [{"name": "main", "env": without_uv}]}
    first = looking(namespace, {"/windlass-cache": f"host:{cache}"}, pod_patch=patch)
    second = looking(namespace, {"/windlass-cache": f"host:{cache}"})
    assert installs(first) and not installs(second)
    assert first.result() == second.result()
    version, place = first.result()
    assert version == "1.1.1" and place.startswith("/windlass-cache/envs/")
    assert len([path for path in (cache / "envs").iterdir() if path.is_dir()]) == 1

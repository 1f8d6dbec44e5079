"""Fixtures of tests that run everywhere: on this machine, and in pods."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import stop_server
from kube.access import HOW_TO, Cluster, find_cluster
from kube.places import Place, kubeconfig_for, new_namespace


@pytest.fixture(scope="module")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a file's tests on this machine."""
    home = tmp_path_factory.mktemp("local") / "wl"
    yield home
    stop_server(home)


@pytest.fixture(scope="module")
def pods(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Path, Place]]:
    """A home whose server has a cluster, and a namespace for all tests of a file."""
    from kubernetes import client

    folder = tmp_path_factory.mktemp("pods")
    core = client.CoreV1Api(cluster.admin())
    namespace = new_namespace(cluster, core, f"windlass-same-{secrets.token_hex(4)}")
    kubeconfig_for(cluster, namespace.name, folder)
    home = folder / "wl"
    yield folder, Place("kubernetes", home, image=cluster.image, namespace=namespace)
    stop_server(home)
    namespace.remove()


@pytest.fixture(params=["local", "kubernetes"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where a test runs; the home of its server is in the environment."""
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    if request.param == "local":
        found = Place("local", request.getfixturevalue("local_home"))
    else:
        if find_cluster() is None:
            pytest.skip(HOW_TO)
        request.getfixturevalue("sharing")
        folder, found = request.getfixturevalue("pods")
        monkeypatch.setenv("KUBECONFIG", str(folder / "kubeconfig"))
    monkeypatch.setenv("WINDLASS_HOME", str(found.home))
    yield found

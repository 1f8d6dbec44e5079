"""Fixtures of tests that run everywhere: on this machine, and in pods."""

from __future__ import annotations

import secrets
import socket
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
def reached(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, dict[str, str]]]:
    """A home whose server has a cluster and reaches its pods, and a namespace for all of a file."""
    yield from _pods(cluster, tmp_path_factory.mktemp("reached"), {})


@pytest.fixture(scope="module")
def dialled(
    own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Place, dict[str, str]]]:
    """The same where pods reach the server."""
    address = own_cluster.machine_address
    with socket.create_server((address, 0)) as held:
        port = held.getsockname()[1]  # the same for each server of the home
    said = {"WINDLASS_LISTEN": f"{address}:{port}", "WINDLASS_NAMES": address}
    yield from _pods(own_cluster, tmp_path_factory.mktemp("dialled"), said)


def _pods(
    cluster: Cluster, folder: Path, said: dict[str, str]
) -> Iterator[tuple[Place, dict[str, str]]]:
    """A place in pods, and what its server finds in its environment."""
    from kubernetes import client

    core = client.CoreV1Api(cluster.admin())
    namespace = new_namespace(cluster, core, f"windlass-same-{secrets.token_hex(4)}")
    config = kubeconfig_for(cluster, namespace.name, folder)
    home = folder / "wl"
    made = Place("kubernetes", home, image=cluster.image, namespace=namespace)
    yield made, {"KUBECONFIG": str(config), **said}
    stop_server(home)
    namespace.remove()


@pytest.fixture(params=["local", "reached", "dialled"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Where a test runs, in pods by both ways to them; its home is in the environment."""
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    if request.param == "local":
        found = Place("local", request.getfixturevalue("local_home"))
    else:
        if find_cluster() is None:
            pytest.skip(HOW_TO)
        request.getfixturevalue("sharing")
        found, said = request.getfixturevalue(request.param)
        for name, value in said.items():
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("WINDLASS_HOME", str(found.home))
    yield found

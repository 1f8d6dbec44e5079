"""Fixtures of tests that run on both backends: this machine, and pods."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import stop_server
from on_kubernetes.both_backends.backends import Backend, kubeconfig_for, new_namespace
from on_kubernetes.cluster_access import HOW_TO, Cluster, find_cluster


@pytest.fixture(scope="module")
def local_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The home of a file's tests on this machine."""
    home = tmp_path_factory.mktemp("local") / "wl"
    yield home
    stop_server(home)


@pytest.fixture(scope="module")
def reached(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Backend, dict[str, str]]]:
    """A home whose server connects to its pods, and a namespace for the whole file."""
    yield from _pods(cluster, tmp_path_factory.mktemp("reached"), {})


@pytest.fixture(scope="module")
def dialled(
    own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Backend, dict[str, str]]]:
    """The same, where pods connect to the server."""
    address = own_cluster.machine_address
    with socket.create_server((address, 0)) as held:
        port = held.getsockname()[1]  # the same for each server of the home
    environment = {"WINDLASS_LISTEN": f"{address}:{port}", "WINDLASS_NAMES": address}
    yield from _pods(own_cluster, tmp_path_factory.mktemp("dialled"), environment)


def _pods(
    cluster: Cluster, folder: Path, environment: dict[str, str]
) -> Iterator[tuple[Backend, dict[str, str]]]:
    """Yield a backend that runs pods, and the environment variables of its server."""
    from kubernetes import client

    core = client.CoreV1Api(cluster.admin())
    namespace = new_namespace(cluster, core, f"windlass-same-{secrets.token_hex(4)}")
    config = kubeconfig_for(cluster, namespace.name, folder)
    home = folder / "wl"
    made = Backend("kubernetes", home, image=cluster.image, namespace=namespace)
    yield made, {"KUBECONFIG": str(config), **environment}
    stop_server(home)
    namespace.remove()


# The short form runs each test in pods that the server connects to. Local trials have other tests,
# and `test_runtime_pods.py` has one with pods that connect to the server.
BACKENDS = [
    pytest.param("local", marks=pytest.mark.thorough),
    "reached",
    pytest.param("dialled", marks=pytest.mark.thorough),
]


@pytest.fixture(params=BACKENDS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Backend]:
    """The backend of a test: pods in both connection modes. Its home is in the environment."""
    monkeypatch.chdir(tmp_path)  # otherwise each pod would download a copy of this repository
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    if request.param == "local":
        backend = Backend("local", request.getfixturevalue("local_home"))
    else:
        if find_cluster() is None:
            pytest.skip(HOW_TO)
        request.getfixturevalue("sharing")
        backend, environment = request.getfixturevalue(request.param)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("WINDLASS_HOME", str(backend.home))
    yield backend

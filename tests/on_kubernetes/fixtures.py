"""Fixtures of tests on Kubernetes: a cluster, and a namespace for each test.

Tests in several processes share one cluster. A test that breaks it requests `alone`, and has it
for itself while it runs.
"""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kubernetes import client

from harness import stop_server
from on_kubernetes.accounts import admin_connection
from on_kubernetes.cluster.builds.windlass_image import have_windlass_image
from on_kubernetes.cluster.locations import CACHE, NAME
from on_kubernetes.cluster_access import HOW_TO, Cluster, find_cluster
from on_kubernetes.gates import Gate
from on_kubernetes.pods import Namespace
from on_kubernetes.proxies import Proxy
from on_kubernetes.throttling_proxy import Turnstile
from windlass.kube.api.connection import Connection

_SHARING = CACHE / f"{NAME}-tests.lock"


def skip_without_cluster(item: pytest.Item) -> None:
    """For `pytest_runtest_setup`:

    pytest reports a skip there in one line, one of a fixture in many.
    """
    if "cluster" in getattr(item, "fixturenames", ()) and find_cluster() is None:
        pytest.skip(HOW_TO)


@contextmanager
def shared(how: int = fcntl.LOCK_SH) -> Iterator[None]:
    """Lock the cluster for a while, shared or exclusively."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with _SHARING.open("a") as file:
        fcntl.flock(file, how)
        yield


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster. Without one, the test is skipped with instructions."""
    members = find_cluster()
    if members is None:
        pytest.skip(HOW_TO)
    return members


@pytest.fixture(scope="session")
def own_cluster(cluster: Cluster) -> Cluster:
    """The cluster of `make kube`, for tests that need this machine's files in pods, or break it."""
    if not cluster.is_ours:
        pytest.skip("this needs the cluster of `make kube`")
    return cluster


@pytest.fixture(scope="session")
def admin(cluster: Cluster) -> client.ApiClient:
    """A client with all permissions."""
    return cluster.admin()


@pytest.fixture(scope="session")
def core(admin: client.ApiClient) -> client.CoreV1Api:
    """Pods, services, nodes and so on, with all permissions."""
    return client.CoreV1Api(admin)


@pytest.fixture(scope="session")
def windlass_image(own_cluster: Cluster) -> str:
    """The image of `deploy/Dockerfile`. The slow build runs before a test locks the cluster."""
    return have_windlass_image()


@pytest.fixture
def sharing(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[None]:
    """The lock of the cluster, shared with other tests unless the test requests `alone`."""
    is_alone = "alone" in request.fixturenames
    is_in_place = not is_alone or request.path.parent.name == "alone"
    assert is_in_place, (
        "tests that have the cluster for themselves are in tests/on_kubernetes/alone"
    )
    with shared(fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH):
        yield


@pytest.fixture
def alone(own_cluster: Cluster, sharing: None) -> Cluster:
    """The cluster of `make kube` without other tests, so that its parts may be stopped."""
    return own_cluster


@pytest.fixture
def namespace(cluster: Cluster, core: client.CoreV1Api, sharing: None) -> Iterator[Namespace]:
    """A namespace for one test, deleted with everything in it."""
    made = Namespace(core, f"windlass-test-{secrets.token_hex(4)}", image=cluster.image)
    made.create()
    yield made
    made.remove()


@pytest.fixture
def gate(own_cluster: Cluster, tmp_path: Path) -> Gate:
    """The gate between a test and its programs in pods."""
    return Gate(tmp_path / "gate")


@pytest.fixture
def home_with_cluster(
    cluster: Cluster, tmp_path: Path, namespace: Namespace, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """A home of one test, whose server has the cluster."""
    path = tmp_path / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(path))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.setenv("WINDLASS_KUBERNETES_IMAGE", cluster.image)
    monkeypatch.chdir(tmp_path)
    yield path
    stop_server(path)


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    """A proxy to the cluster that a test may break."""
    with Proxy(cluster) as made:
        yield made


@pytest.fixture
def home_behind_proxy(
    proxy: Proxy, home_with_cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A home whose servers reach the cluster through the proxy, which outlives them."""
    monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(tmp_path)))
    return home_with_cluster


@pytest.fixture
def turnstile(cluster: Cluster) -> Iterator[Turnstile]:
    """A proxy to the cluster that can respond as too busy."""
    with Turnstile(cluster) as made:
        yield made


@pytest.fixture
def connection(
    cluster: Cluster, namespace: Namespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A connection with all permissions, in the test's namespace."""
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "windlass"))
    made = admin_connection(cluster.kubeconfig, namespace.name)
    yield made
    made.close()

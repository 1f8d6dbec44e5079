"""Fixtures of tests of the operator: definitions, jobs, an operator of the test's namespace."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

from on_kubernetes.both_backends.backends import new_namespace
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.fixtures import shared
from on_kubernetes.operator.kubeflow_client import have_python
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess, operating
from on_kubernetes.pods import Namespace
from windlass.kube.api.connection import connect
from windlass.operator.install_crds import install


@pytest.fixture(scope="session")
def definitions(cluster: Cluster) -> None:
    """The definitions of TFJob and PyTorchJob in the cluster."""
    with shared():  # not while a test changes them
        install(connect(config_file=str(cluster.kubeconfig)))


@pytest.fixture
def jobs(cluster: Cluster, namespace: Namespace, definitions: None) -> Jobs:
    """The jobs of the test's own namespace."""
    return Jobs(cluster, namespace)


@pytest.fixture
def others(cluster: Cluster, core: client.CoreV1Api, jobs: Jobs) -> Iterator[list[Jobs]]:
    """The jobs of two more namespaces."""
    made = [new_namespace(cluster, core, f"windlass-test-{secrets.token_hex(4)}") for _ in range(2)]
    yield [Jobs(cluster, namespace) for namespace in made]
    for created in made:
        created.remove()


@pytest.fixture
def operator(cluster: Cluster, namespace: Namespace, jobs: Jobs) -> Iterator[OperatorProcess]:
    """An operator of the test's own namespace."""
    with operating(cluster, "--namespace", namespace.name, "--alone") as process:
        yield process


@pytest.fixture(scope="session")
def kubeflow_python() -> Path:
    """An interpreter with Kubeflow's own client."""
    return have_python()

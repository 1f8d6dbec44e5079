"""Fixtures of tests of the operator: definitions, jobs, an operator of the test's namespace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kube.access import Cluster
from kube.fixtures import shared
from kube.kubeflow_client import have_python
from kube.operating import Jobs, OperatorProcess, operating
from kube.pods import Namespace
from windlass.kube.connecting import connect
from windlass.operator.installing import install


@pytest.fixture(scope="session")
def definitions(cluster: Cluster) -> None:
    """TFJob and PyTorchJob are known to the cluster."""
    with shared():  # not while a test changes them
        install(connect(config_file=str(cluster.kubeconfig)))


@pytest.fixture
def jobs(cluster: Cluster, namespace: Namespace, definitions: None) -> Jobs:
    """The jobs of the test's own namespace."""
    return Jobs(cluster, namespace)


@pytest.fixture
def operator(cluster: Cluster, namespace: Namespace, jobs: Jobs) -> Iterator[OperatorProcess]:
    """An operator of the test's own namespace."""
    with operating(cluster, "--namespace", namespace.name, "--alone") as process:
        yield process


@pytest.fixture(scope="session")
def kubeflow_python() -> Path:
    """An interpreter with Kubeflow's own client."""
    return have_python()

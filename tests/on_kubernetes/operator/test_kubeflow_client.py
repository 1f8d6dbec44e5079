"""Clients of another operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.kubeflow_client import check_client
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess


@pytest.mark.parametrize("kind", [pytest.param("TFJob", marks=pytest.mark.thorough), "PyTorchJob"])
def test_the_kubeflow_client_creates_waits_reads_logs_and_deletes(
    cluster: Cluster, operator: OperatorProcess, jobs: Jobs, kubeflow_python: Path, kind: str
) -> None:
    check_client(kubeflow_python, cluster, jobs, kind)

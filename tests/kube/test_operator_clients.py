"""Clients that were made for another operator."""

from __future__ import annotations

from pathlib import Path

import pytest

from kube.access import Cluster
from kube.kubeflow_client import check_client
from kube.operating import Jobs, OperatorProcess


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
def test_kubeflows_own_client_creates_waits_reads_logs_and_deletes(
    cluster: Cluster, operator: OperatorProcess, jobs: Jobs, kubeflow_python: Path, kind: str
) -> None:
    check_client(kubeflow_python, cluster, jobs, kind)

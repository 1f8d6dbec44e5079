"""The definitions that the project of another operator publishes, in place of Windlass's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import published_crds
from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.kubeflow_client import check_client
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess
from windlass.operator.install_crds import DEFINITIONS, definitions
from windlass.operator.job_kinds import BY_NAME, JOB_KINDS

pytestmark = published_crds.needed


@pytest.fixture
def theirs(alone: Cluster, jobs: Jobs) -> Iterator[None]:
    """The definitions as their project publishes them, in place of Windlass's."""
    try:
        for kind in JOB_KINDS:
            _define(jobs, published_crds.definition(kind.kind.plural))
        yield
    finally:
        for definition in definitions():
            _define(jobs, definition)


@pytest.mark.parametrize("kind", ["TFJob", pytest.param("PyTorchJob", marks=pytest.mark.thorough)])
def test_jobs_work_with_the_published_definitions(
    theirs: None, operator: OperatorProcess, jobs: Jobs, kind: str
) -> None:
    """They drop unknown fields from a status, so the operator must store its state elsewhere."""
    die = "import os, sys; sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] < '3' else 0)"
    role = jobs.role(1, die, restartPolicy="ExitCode")
    jobs.create(kind, "train", Master=role)
    assert jobs.ended(kind, "train")["type"] == "Succeeded"
    assert jobs.attempt("train-master-0") == 3
    status = (jobs.get(kind, "train") or {})["status"]
    assert status["replicaStatuses"]["Master"]["succeeded"] == 1
    assert {"startTime", "completionTime", "lastReconcileTime"} <= set(status)


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
@pytest.mark.thorough
def test_the_kubeflow_client_works_with_its_own_definitions(
    theirs: None, cluster: Cluster, operator: OperatorProcess, jobs: Jobs,
    kubeflow_python: Path, kind: str,
) -> None:  # fmt: skip
    check_client(kubeflow_python, cluster, jobs, kind, refuses=False)


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
@pytest.mark.thorough
def test_a_job_is_suspended_resumed_and_scaled_with_the_published_definitions(
    theirs: None, operator: OperatorProcess, jobs: Jobs, kind: str
) -> None:
    stay = "import time; time.sleep(1000)"
    suspended = {"runPolicy": {"suspend": True}}
    jobs.create(kind, "train", spec=suspended, Master=jobs.role(1, stay), Worker=jobs.role(2, stay))
    jobs.wait(kind, "train", "Suspended")
    assert not jobs.pods()
    jobs.patch(kind, "train", {"spec": {"runPolicy": {"suspend": False}}})
    jobs.wait(kind, "train", "Running")
    first = jobs.uids()
    assert set(first) == {"train-master-0", "train-worker-0", "train-worker-1"}
    specs = BY_NAME[kind].replica_specs
    jobs.patch(kind, "train", {"spec": {specs: {"Worker": {"replicas": 1}}}})
    eventually(lambda: set(jobs.pods()) == {"train-master-0", "train-worker-0"}, "one goes")
    if kind == "PyTorchJob":  # the subresource that autoscalers write
        path = BY_NAME[kind].kind.path(jobs.namespace, "train", "scale")
        body = {"spec": {"replicas": 3}}
        jobs.connection.request("PATCH", path, body, content_type="application/merge-patch+json")
        eventually(lambda: {"train-worker-1", "train-worker-2"} <= set(jobs.pods()), "two come")
        eventually(lambda: _scale(jobs)["replicas"] == 3, "they are counted")
        assert "training.kubeflow.org/replica-type=worker" in _scale(jobs)["selector"]
    jobs.patch(kind, "train", {"spec": {"runPolicy": {"suspend": True}}})
    jobs.wait(kind, "train", "Suspended")
    jobs.wait_nothing_left()


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
@pytest.mark.thorough
def test_managed_by_works_with_the_published_definitions(
    theirs: None, operator: OperatorProcess, jobs: Jobs, kind: str
) -> None:
    for name, manager in (
        ("theirs", "kueue.x-k8s.io/multikueue"),
        ("ours", "kubeflow.org/training-operator"),
    ):
        spec = {"runPolicy": {"managedBy": manager}}
        jobs.create(kind, name, spec=spec, Master=jobs.role(1, "pass"))
    assert jobs.ended(kind, "ours")["type"] == "Succeeded"
    theirs = jobs.get(kind, "theirs") or {}
    assert theirs["spec"]["runPolicy"]["managedBy"] == "kueue.x-k8s.io/multikueue"
    assert not theirs.get("status")
    assert "annotations" not in theirs["metadata"]
    assert set(jobs.pods()) == {"ours-master-0"}


def _scale(jobs: Jobs) -> dict[str, Any]:
    """The scale subresource of a job."""
    path = BY_NAME["PyTorchJob"].kind.path(jobs.namespace, "train", "scale")
    return dict(jobs.connection.request("GET", path)["status"])


def _define(jobs: Jobs, definition: dict[str, Any]) -> None:
    name = definition["metadata"]["name"]
    there = jobs.connection.request("GET", DEFINITIONS.path(name=name))
    version = there["metadata"]["resourceVersion"]
    body = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
    jobs.connection.request("PUT", DEFINITIONS.path(name=name), body)

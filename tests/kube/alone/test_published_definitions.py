"""The definitions that another operator's project publishes, in the place of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.access import Cluster
from kube.operating import Jobs, OperatorProcess
from windlass.operator.installing import DEFINITIONS, definitions
from windlass.operator.jobkinds import JOB_KINDS

PUBLISHED = Path(__file__).parents[4] / "shared" / "crds"


@pytest.fixture
def published(alone: Cluster, jobs: Jobs) -> Iterator[None]:
    """The definitions as their project publishes them, in the place of ours."""
    if not PUBLISHED.is_dir():
        pytest.skip("the published definitions are not at hand")
    for kind in JOB_KINDS:
        text = (PUBLISHED / f"kubeflow.org_{kind.kind.plural}.yaml").read_text()
        _define(jobs, yaml.safe_load(text))
    yield
    for each in definitions():
        _define(jobs, each)


@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob"])
def test_with_the_published_definitions_all_is_the_same(
    published: None, operator: OperatorProcess, jobs: Jobs, kind: str
) -> None:
    """They drop from a status what they do not know: what is remembered must not be there."""
    die = "import os, sys; sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] < '3' else 0)"
    role = jobs.role(1, die, restartPolicy="ExitCode")
    jobs.create(kind, "train", Master=role)
    assert jobs.ended(kind, "train")["type"] == "Succeeded"
    assert jobs.attempt("train-master-0") == 3
    status = (jobs.get(kind, "train") or {})["status"]
    assert status["replicaStatuses"]["Master"]["succeeded"] == 1
    assert {"startTime", "completionTime", "lastReconcileTime"} <= set(status)


def _define(jobs: Jobs, definition: dict[str, Any]) -> None:
    name = definition["metadata"]["name"]
    there = jobs.connection.request("GET", DEFINITIONS.path(name=name))
    version = there["metadata"]["resourceVersion"]
    body = {**definition, "metadata": {**definition["metadata"], "resourceVersion": version}}
    jobs.connection.request("PUT", DEFINITIONS.path(name=name), body)

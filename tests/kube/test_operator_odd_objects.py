"""Objects that make no sense: they are told of, and nobody else waits for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube.access import Cluster
from kube.operating import Jobs, OperatorProcess, operating
from windlass.kube.kinds import uid_of
from windlass.operator.names import MEMORY


def test_a_memory_that_somebody_wrote_keeps_nobody_from_the_others(
    cluster: Cluster, jobs: Jobs
) -> None:
    odd = jobs.create("TFJob", "odd", Worker=jobs.role(1, "pass"))
    condition = {"type": "Succeeded", "status": True, "last_update": 1e300, "last_transition": 1.0}
    status = {"conditions": [condition], "settled": True, "completion_time": 1e300}
    memory = json.dumps({"uid": uid_of(odd), "status": status})
    jobs.patch("TFJob", "odd", {"metadata": {"annotations": {MEMORY: memory}}})
    with operating(cluster, "--namespace", jobs.namespace, "--alone"):
        jobs.create("TFJob", "fine", Worker=jobs.role(1, "pass"))
        assert jobs.ended("TFJob", "fine")["type"] == "Succeeded"


@pytest.mark.parametrize(
    "container", [{"ports": 5}, {"ports": ["x"]}, {"env": 3}, {"command": 7}], ids=str
)
def test_a_template_that_makes_no_sense_is_told_of(
    jobs: Jobs, operator: OperatorProcess, container: dict[str, Any]
) -> None:
    jobs.create("TFJob", "odd", Worker=jobs.role(1, "pass", container=container))
    jobs.create("TFJob", "fine", Worker=jobs.role(1, "pass"))
    assert jobs.ended("TFJob", "fine")["type"] == "Succeeded"
    end = jobs.ended("TFJob", "odd")
    assert (end["type"], end["reason"]) == ("Failed", "InvalidSpec"), end

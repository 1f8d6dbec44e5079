"""Invalid objects are reported, and do not delay others."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import (
    PASS,
    SLEEP,
    Jobs,
    OperatorProcess,
    Role,
    operating,
)
from windlass.kube.api.resource_kinds import uid_of
from windlass.operator.job_kinds import TFJOB
from windlass.operator.names import MEMORY


@pytest.mark.thorough
def test_a_foreign_annotation_does_not_block_other_jobs(cluster: Cluster, jobs: Jobs) -> None:
    odd = jobs.create("TFJob", "odd", Worker=jobs.role(1, PASS))
    condition = {"type": "Succeeded", "status": True, "last_update": 1e300, "last_transition": 1.0}
    status = {"conditions": [condition], "settled": True, "completion_time": 1e300}
    memory = json.dumps({"uid": uid_of(odd), "status": status})
    jobs.patch("TFJob", "odd", {"metadata": {"annotations": {MEMORY: memory}}})
    with operating(cluster, "--namespace", jobs.namespace, "--alone"):
        jobs.create("TFJob", "fine", Worker=jobs.role(1, PASS))
        assert jobs.ended("TFJob", "fine")["type"] == "Succeeded"


@pytest.mark.thorough
def test_a_deeply_nested_annotation_is_ignored_and_the_job_starts(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    body = jobs.body("TFJob", "deep", Worker=jobs.role(1, PASS))
    memory = '{"uid": "u", "zz": ' + "[" * 5000 + "]" * 5000 + "}"
    body["metadata"]["annotations"] = {MEMORY: memory}
    jobs.connection.request("POST", TFJOB.kind.path(jobs.namespace), body)
    assert jobs.ended("TFJob", "deep")["type"] == "Succeeded"
    assert "Traceback" not in operator.output


def test_an_invalid_template_is_reported(jobs: Jobs, operator: OperatorProcess) -> None:
    odd = {
        "ports": {"ports": 5},
        "ports[0]": {"ports": ["x"]},
        "env": {"env": "abc"},
        "command": {"command": 7},
    }
    for number, container in enumerate(odd.values()):
        jobs.create("TFJob", f"odd-{number}", Worker=jobs.role(1, PASS, container=container))
    processes = {"nprocPerNode": "9" * 5000}
    jobs.create("PyTorchJob", "many", spec=processes, Master=jobs.role(1, PASS))
    jobs.create("TFJob", "fine", Worker=jobs.role(1, PASS))
    assert jobs.ended("TFJob", "fine")["type"] == "Succeeded"
    for number, place in enumerate(odd):
        end = jobs.ended("TFJob", f"odd-{number}")
        assert (end["type"], end["reason"]) == ("Failed", "InvalidSpec"), end
        path = f"spec.tfReplicaSpecs.Worker.template.spec.containers[0].{place}: must be"
        assert path in end["message"]
    assert "spec.nprocPerNode" in jobs.ended("PyTorchJob", "many")["message"]
    assert "Traceback" not in operator.output


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"containers": []}, "it is empty; add a container named 'tensorflow'"),
        ({"containers": [{"name": "main", "image": "x"}]}, "no container is named 'tensorflow'"),
    ],
)
@pytest.mark.thorough
def test_an_invalid_object_fails_with_the_field_and_the_reason(
    jobs: Jobs, operator: OperatorProcess, change: dict[str, Any], message: str
) -> None:
    role = {"replicas": 1, "template": {"spec": change}}
    body = {
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "train"},
        "spec": {"tfReplicaSpecs": {"Worker": role}},
    }  # fmt: skip
    path = f"/apis/kubeflow.org/v1/namespaces/{jobs.namespace}/tfjobs"
    jobs.connection.request("POST", path, body)
    end = jobs.ended("TFJob", "train")
    assert (end["type"], end["reason"]) == ("Failed", "InvalidSpec")
    assert "spec.tfReplicaSpecs.Worker.template.spec.containers" in end["message"]
    assert message in end["message"]
    assert not jobs.pods()


@pytest.mark.thorough
def test_two_chiefs_and_long_names_are_refused(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "two", Chief=jobs.role(2, PASS))
    assert "has one chief; there are 2" in jobs.ended("TFJob", "two")["message"]
    name = "x" * 60
    jobs.create("TFJob", name, Chief=jobs.role(1, PASS))
    assert "is too long" in jobs.ended("TFJob", name)["message"]


def test_a_permanent_refusal_of_the_api_fails_the_job_once_with_field_and_reason(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    image = jobs.role(1, PASS)["template"]["spec"]["containers"][0]["image"]
    twin = {"name": "tensorflow", "image": image}
    variables = [{"name": "A", "value": "1"}, {"name": "1 2", "value": "2"}]
    odd = {
        "spec.containers[1].name: Duplicate value": jobs.role(3, PASS, beside=[twin]),
        "spec.containers[0].env[1].name: Invalid value": jobs.role(
            1, PASS, container={"env": variables}
        ),
        "metadata.labels: Invalid value": _labelled(jobs.role(1, PASS), "no label!"),
        "TerminationGracePeriodSeconds": jobs.role(
            1, PASS, pod={"terminationGracePeriodSeconds": "soon"}
        ),
    }
    for number, role in enumerate(odd.values()):
        jobs.create("TFJob", f"odd-{number}", Worker=role)
    for number, message in enumerate(odd):
        name = f"odd-{number}"
        end = jobs.ended("TFJob", name)
        assert (end["type"], end["reason"]) == ("Failed", "InvalidSpec"), end
        assert end["message"].startswith("spec.tfReplicaSpecs.Worker.template")
        assert message in end["message"]
        event = f"InvalidSpec: {end['message']}"
        eventually(partial(_is_reported, jobs, name, event), "an event reports it")
        assert [event for event in jobs.events(name) if "Service" not in event] == [event]
    assert not jobs.pods()
    assert "Traceback" not in operator.output


def test_running_pods_of_a_job_with_a_refused_part_are_stopped(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    odd = _labelled(jobs.role(1, PASS), "no label!")
    jobs.create("TFJob", "train", Chief=jobs.role(1, SLEEP), Worker=odd)
    assert jobs.ended("TFJob", "train")["reason"] == "InvalidSpec"
    eventually(lambda: not jobs.pods(), "the chief is gone")


def test_a_running_job_survives_a_change_that_the_api_refuses(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(1, SLEEP))
    jobs.wait_running("train-worker-0")
    odd = _labelled(jobs.role(2, SLEEP), "no label!")
    change = jobs.body("TFJob", "train", Worker=odd)["spec"]
    jobs.patch("TFJob", "train", {"spec": change})
    eventually(lambda: _failures(jobs, "train"), "it is reported")
    assert "metadata.labels: Invalid value" in _failures(jobs, "train")[0]
    assert "Failed" not in jobs.conditions("TFJob", "train")
    jobs.wait_running("train-worker-0")
    # After the fix it continues.
    mended = jobs.body("TFJob", "train", Worker=_labelled(odd, "a"))["spec"]
    jobs.patch("TFJob", "train", {"spec": mended})
    jobs.wait_running("train-worker-0", "train-worker-1")


def _labelled(role: Role, text: str) -> Role:
    role["template"]["metadata"] = {"labels": {"note": text}}
    return role


def _is_reported(jobs: Jobs, name: str, event: str) -> bool:
    return event in jobs.events(name)


def _failures(jobs: Jobs, name: str) -> list[str]:
    return [event for event in jobs.events(name) if event.startswith("CreateFailed")]

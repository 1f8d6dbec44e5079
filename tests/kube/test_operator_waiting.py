"""Jobs that do not get going: what is wrong is told on their objects."""

from __future__ import annotations

from typing import Any

from harness import eventually
from kube.access import Cluster
from kube.operating import Jobs, OperatorProcess, operating


def waits_for(jobs: Jobs, name: str) -> list[str]:
    return [each for each in jobs.events(name) if each.startswith("ReplicaWaiting: ")]


def test_an_image_that_cannot_be_pulled_is_told_on_the_job(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    container = {"image": "registry.invalid/nobody/nothing:1"}
    jobs.create("TFJob", "train", Worker=jobs.role(2, "pass", container=container))
    eventually(lambda: bool(waits_for(jobs, "train")), "it is told")
    assert "train-worker-" in waits_for(jobs, "train")[0]
    assert "registry.invalid/nobody/nothing:1" in waits_for(jobs, "train")[0]


def test_one_that_fits_on_no_machine_is_told_on_the_job_once(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    resources: dict[str, Any] = {"resources": {"requests": {"memory": "900Ti"}}}
    jobs.create("PyTorchJob", "huge", Master=jobs.role(1, "pass", container=resources))
    eventually(lambda: bool(waits_for(jobs, "huge")), "it is told")
    # Another look at it is no news.
    jobs.patch("PyTorchJob", "huge", {"spec": {"runPolicy": {"backoffLimit": 2}}})
    jobs.create("PyTorchJob", "small", Master=jobs.role(1, "import sys; sys.exit(3)"))
    end = jobs.ended("PyTorchJob", "small")
    assert end["type"] == "Failed"
    assert len(waits_for(jobs, "huge")) == 1
    assert "huge-master-0 does not start: " in waits_for(jobs, "huge")[0]


def test_a_failure_names_the_replica_though_it_is_the_only_one(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    role = jobs.role(1, "import sys; sys.exit(3)", restartPolicy="Never")
    jobs.create("PyTorchJob", "train", Master=role)
    end = jobs.ended("PyTorchJob", "train")
    assert end["message"].startswith("master-0: exit code 3")
    told = "ReplicaFailed: master-0: exit code 3"
    eventually(lambda: any(each.startswith(told) for each in jobs.events("train")), "it is told")


def test_a_namespace_that_is_not_there_is_told_and_watched_all_the_same(
    cluster: Cluster, jobs: Jobs
) -> None:
    there, later = jobs.namespace, f"{jobs.namespace}-later"
    words = ("--namespace", there, "--namespace", later, "--alone")
    with operating(cluster, *words) as process:
        process.wait_leading()
        assert f"There is no namespace {later} yet" in process.output
        assert f"no namespace {there} yet" not in process.output
        namespaces = "/api/v1/namespaces"
        jobs.connection.request("POST", namespaces, {"metadata": {"name": later}})
        try:
            jobs.namespace = later
            role = jobs.role(1, "pass")
            jobs.create("PyTorchJob", "train", Master=role)
            eventually(lambda: "Created" in jobs.conditions("PyTorchJob", "train"), "it is seen")
        finally:
            jobs.namespace = there
            jobs.connection.request("DELETE", f"{namespaces}/{later}", {})

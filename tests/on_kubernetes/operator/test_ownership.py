"""Ownership of pods and services: recreated, adopted, released and foreign ones, and those
without capacity.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import (
    MERGE,
    PASS,
    SLEEP,
    Jobs,
    OperatorProcess,
    operating,
)
from on_kubernetes.operator.simulated_pods import NOBODY
from on_kubernetes.pods import Namespace
from windlass.kube.api.resource_kinds import PODS, SERVICES, Kind
from windlass.model.errors import KubernetesError
from windlass.operator.job_kinds import BY_NAME


@pytest.mark.case(9)
def test_a_deleted_pod_is_recreated(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    jobs.connection.request(
        "DELETE", f"/api/v1/namespaces/{jobs.namespace}/pods/train-worker-1", {}
    )
    eventually(lambda: jobs.attempt("train-worker-1") == 2, "it comes back")
    jobs.wait("TFJob", "train", "Running")
    jobs.connection.request(
        "DELETE", f"/api/v1/namespaces/{jobs.namespace}/services/train-worker-0", {}
    )
    eventually(lambda: "train-worker-0" in jobs.services(), "and so does a service")


@pytest.mark.case(9)
def test_an_orphan_is_adopted_and_a_foreign_pod_is_left_alone(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    made = jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    before = (jobs.pod("train-worker-0") or {})["metadata"]["uid"]
    path = f"/api/v1/namespaces/{jobs.namespace}/pods"

    def own(name: str, owners: Any) -> None:
        jobs.connection.request(
            "PATCH", f"{path}/{name}", {"metadata": {"ownerReferences": owners}},
            content_type=MERGE,
        )  # fmt: skip

    own("train-worker-0", None)
    eventually(lambda: _owner(jobs, "train-worker-0") == made["metadata"]["uid"], "it is adopted")
    assert (jobs.pod("train-worker-0") or {})["metadata"]["uid"] == before
    other = {
        "apiVersion": "v1", "kind": "Pod", "name": "train-worker-0", "uid": before,
        "controller": True,
    }  # fmt: skip
    labels = {
        **(jobs.pod("train-worker-0") or {})["metadata"]["labels"],
        "training.kubeflow.org/replica-index": "7",
    }
    body = {
        "metadata": {"name": "foreign", "labels": labels, "ownerReferences": [other]},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {"name": "tensorflow", "image": jobs._image, "command": ["sleep", "999"]}
            ],
        },
    }
    foreign = jobs.connection.request("POST", path, body)
    jobs.patch("TFJob", "train", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})
    eventually(lambda: "train-worker-1" not in jobs.pods(), "the job is looked at")
    assert (jobs.pod("foreign") or {})["metadata"]["uid"] == foreign["metadata"]["uid"]
    assert _owner(jobs, "foreign") == before


@pytest.mark.case(9)
@pytest.mark.parametrize(
    "label",
    [pytest.param("another", marks=pytest.mark.thorough), None],
    ids=["of another job", "of none"],
)
def test_a_pod_without_the_labels_of_its_job_is_released(
    jobs: Jobs, operator: OperatorProcess, label: str | None
) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    before = jobs.uids()
    path = PODS.path(jobs.namespace, "train-worker-1")
    _label(jobs, "train-worker-1", label)
    message = "ReleasedPod: Released pod: train-worker-1"
    eventually(lambda: message in jobs.events("train"), "it is reported")
    # It has the name that the job's own pod needs, which is reported and awaited.
    eventually(
        lambda: any("train-worker-1 in namespace" in event for event in jobs.events("train")),
        "the obstacle is reported",
    )
    released = jobs.pod("train-worker-1") or {}
    assert released["metadata"]["uid"] == before["train-worker-1"]
    assert "ownerReferences" not in released["metadata"]
    assert "deletionTimestamp" not in released["metadata"]
    jobs.connection.request("DELETE", path, {})
    eventually(lambda: jobs.attempt("train-worker-1") == 2, "the job's own comes")
    jobs.wait("TFJob", "train", "Running")
    assert jobs.uids()["train-worker-0"] == before["train-worker-0"]


@pytest.mark.case(9)
@pytest.mark.thorough
def test_a_service_without_the_labels_of_its_job_is_released(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    made = jobs.create("TFJob", "train", Worker=jobs.role(1, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    first = jobs.services()["train-worker-0"]["metadata"]["uid"]
    _label(jobs, "train-worker-0", "another", SERVICES)
    jobs.wait_event("train", "ReleasedService: Released service: train-worker-0")
    released = jobs.services()["train-worker-0"]["metadata"]
    assert (released["uid"], released.get("ownerReferences")) == (first, None)
    jobs.wait_event("train", "CreateFailed: ", "the service train-worker-0 in namespace")
    # A missing service does not stop the job.
    jobs.patch("TFJob", "train", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 2}}}})
    jobs.wait_running("train-worker-1")
    jobs.connection.request("DELETE", SERVICES.path(jobs.namespace, "train-worker-0"), {})

    def owners() -> list[str]:
        there = jobs.services().get("train-worker-0", {"metadata": {}})["metadata"]
        return [reference["uid"] for reference in there.get("ownerReferences", ())]

    eventually(lambda: owners() == [made["metadata"]["uid"]], "the job's own comes")
    assert jobs.attempt("train-worker-0") == 1


@pytest.mark.case(9)
@pytest.mark.thorough
def test_the_replacement_of_a_pod_to_be_deleted_is_spared(
    cluster: Cluster, jobs: Jobs, namespace: Namespace, tmp_path: Path
) -> None:
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig=f"hold:DELETE:train-worker-1:{tmp_path}") as process:
        jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
        jobs.wait("TFJob", "train", "Running")
        jobs.patch("TFJob", "train", {"spec": {"tfReplicaSpecs": {"Worker": {"replicas": 1}}}})
        eventually((tmp_path / "held").exists, "it is about to go")
        at_once = {"gracePeriodSeconds": 0}
        path = PODS.path(jobs.namespace, "train-worker-1")
        jobs.connection.request("DELETE", path, at_once)
        eventually(lambda: jobs.pod("train-worker-1") is None, "somebody else was faster")
        namespace.pod("train-worker-1", "sleep", "999")
        theirs = jobs.uids()["train-worker-1"]
        (tmp_path / "go").touch()
        eventually(lambda: list(jobs.services()) == ["train-worker-0"], "the job is at its size")
        jobs.create("TFJob", "next", Worker=jobs.role(1, PASS))
        assert jobs.ended("TFJob", "next")["type"] == "Succeeded"
        pod = jobs.pod("train-worker-1") or {}
        assert pod["metadata"]["uid"] == theirs
        assert "deletionTimestamp" not in pod["metadata"]
        assert "Traceback" not in process.output


@pytest.mark.case(9)
@pytest.mark.parametrize("waits", [True, False], ids=["after a while", "at once"])
@pytest.mark.thorough
def test_a_pod_that_gets_its_labels_back_does_not_block_its_name_forever(
    jobs: Jobs, operator: OperatorProcess, waits: bool
) -> None:
    once = "import os, time; time.sleep(1000 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    jobs.create("TFJob", "train", Worker=jobs.role(1, once, restartPolicy="OnFailure"))
    jobs.wait("TFJob", "train", "Running")
    first = jobs.uids()["train-worker-0"]
    _label(jobs, "train-worker-0", None)
    if waits:
        message = "ReleasedPod: Released pod: train-worker-0"
        eventually(lambda: message in jobs.events("train"), "it is let go")
    _label(jobs, "train-worker-0", "train")
    try:  # unless this was missed, and it is gone: then another attempt has started
        options = {"preconditions": {"uid": first}}
        path = PODS.path(jobs.namespace, "train-worker-0")
        jobs.connection.request("DELETE", path, options)
    except KubernetesError as error:
        assert error.status in (404, 409), error
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"


@pytest.mark.case(9)
@pytest.mark.thorough
def test_an_orphan_of_a_deleted_job_is_not_adopted_by_a_new_job_of_that_name(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    """A missing owner would cause the pod to be removed."""
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig=f"hold:GET:train:{tmp_path}"):
        jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
        jobs.wait("TFJob", "train", "Running")
        uid = jobs.uids()["train-worker-0"]
        path = PODS.path(jobs.namespace, "train-worker-0")
        orphan = {"metadata": {"ownerReferences": None}}
        jobs.connection.request("PATCH", path, orphan, content_type=MERGE)
        # Just before the adoption, its owner is read once more.
        eventually((tmp_path / "held").exists, "the job is looked at")
        jobs.delete("TFJob", "train")
        eventually(lambda: jobs.get("TFJob", "train") is None, "it is gone")
        theirs = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
        jobs.create("TFJob", "train", spec=theirs, Worker=jobs.role(2, SLEEP))
        (tmp_path / "go").touch()
        eventually((tmp_path / "done").exists, "it is seen")
        jobs.create("TFJob", "next", Worker=jobs.role(1, PASS))
        assert jobs.ended("TFJob", "next")["type"] == "Succeeded"
        eventually(lambda: "train-worker-1" not in jobs.pods(), "what it owned goes with it")
        pod = jobs.pod("train-worker-0") or {}
        assert pod["metadata"]["uid"] == uid
        assert "ownerReferences" not in pod["metadata"]
        assert not any("Adopted" in event for event in jobs.events("train"))


def test_a_pod_beyond_a_quota_is_reported_and_created_when_it_fits(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    quota = _limit_to_one_pod(jobs)
    jobs.create("TFJob", "train", Chief=jobs.role(1, SLEEP), Worker=jobs.role(1, PASS))

    def failures() -> list[str]:
        return [event for event in jobs.events("train") if event.startswith("CreateFailed: ")]

    eventually(lambda: bool(failures()), "it is reported")
    assert "worker-0" in failures()[0], failures()
    assert "The quota few of the namespace is exceeded" in failures()[0], failures()
    assert list(jobs.pods()) == ["train-chief-0"]
    assert "Failed" not in jobs.conditions("TFJob", "train")
    change = {"spec": {"hard": {"pods": "2"}}}
    jobs.connection.request("PATCH", quota, change, content_type=MERGE)
    jobs.wait_pod("train-worker-0", lambda pod: pod is not None, "comes")
    assert jobs.attempt("train-worker-0") == jobs.attempt("train-chief-0") == 1


@pytest.mark.thorough
def test_a_service_is_deleted_although_its_replica_never_had_a_pod(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    _limit_to_one_pod(jobs)
    jobs.create("TFJob", "train", Chief=jobs.role(1, SLEEP), Worker=jobs.role(1, PASS))
    eventually(lambda: "train-worker-0" in jobs.services(), "the worker has a service alone")
    jobs.patch("TFJob", "train", {"spec": {"runPolicy": {"suspend": True}}})
    jobs.wait("TFJob", "train", "Suspended")
    jobs.wait_nothing_left()


@pytest.mark.thorough
def test_a_status_with_a_write_conflict_is_written_again(
    cluster: Cluster, jobs: Jobs, tmp_path: Path
) -> None:
    words = ("--namespace", jobs.namespace, "--alone")
    with operating(cluster, *words, rig=f"hold:PUT:status:{tmp_path}") as process:
        jobs.create("TFJob", "train", Worker=jobs.role(1, SLEEP))
        eventually((tmp_path / "held").exists, "its status is about to be written")
        # By another client: a field that is not the operator's, and the status itself.
        jobs.patch("TFJob", "train", {"metadata": {"labels": {"team": "vision"}}})
        theirs = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
        path = BY_NAME["TFJob"].kind.path(jobs.namespace, "train", "status")
        jobs.connection.request("PATCH", path, theirs, content_type=MERGE)
        (tmp_path / "go").touch()
        jobs.wait("TFJob", "train", "Running")
        assert not (tmp_path / "done").exists(), "the first was refused"
        assert set(jobs.conditions("TFJob", "train")) == {"Created", "Running"}
        thing = jobs.get("TFJob", "train") or {}
        assert thing["metadata"]["labels"] == {"team": "vision"}
        assert "Traceback" not in process.output
        assert "another program changed the stored status" not in process.output


@pytest.mark.case(9)
def test_a_foreign_pod_is_never_taken_for_a_replica(
    jobs: Jobs, operator: OperatorProcess, namespace: Namespace
) -> None:
    namespace.pod("train-worker-0", "true", schedulerName=NOBODY)
    jobs.create("TFJob", "train", Worker=jobs.role(1, PASS))
    eventually(
        lambda: any("already exists" in event for event in jobs.events("train")), "it is reported"
    )
    assert "ownerReferences" not in (jobs.pod("train-worker-0") or {})["metadata"]
    namespace.core.delete_namespaced_pod("train-worker-0", namespace.name)
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"


@pytest.mark.case(9)
@pytest.mark.parametrize(
    ("attempt", "stays", "goes"),
    [("1", "train-worker-0", "copy"), ("2", "copy", "train-worker-0")],
    ids=["of the same attempt", "of a newer attempt"],
)
@pytest.mark.parametrize("is_owned", [True, False], ids=["owned", "orphan"])
@pytest.mark.thorough
def test_one_of_two_pods_of_a_replica_is_deleted(
    jobs: Jobs, operator: OperatorProcess, attempt: str, stays: str, goes: str, is_owned: bool
) -> None:
    made = jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    pod = jobs.pod("train-worker-0") or {}
    metadata = pod["metadata"]
    copy = {
        "metadata": {
            "name": "copy",
            "labels": {**metadata["labels"], "windlass.dev/attempt": attempt},
            "ownerReferences": metadata["ownerReferences"] if is_owned else [],
        },
        "spec": {**pod["spec"], "nodeName": None, "volumes": None},
    }
    copy["spec"]["containers"] = [{**pod["spec"]["containers"][0], "volumeMounts": None}]
    second = jobs.connection.request("POST", f"/api/v1/namespaces/{jobs.namespace}/pods", copy)
    uids = {"train-worker-0": metadata["uid"], "copy": second["metadata"]["uid"]}

    def is_one_left() -> bool:
        there = {name: pod["metadata"]["uid"] for name, pod in jobs.pods().items()}
        return there.get(stays) == uids[stays] and there.get(goes) != uids[goes]

    eventually(is_one_left, f"{goes} goes and {stays} stays")
    jobs.wait_running(stays)
    assert _owner(jobs, stays) == made["metadata"]["uid"]
    assert (jobs.get("TFJob", "train") or {})["status"]["replicaStatuses"]["Worker"]["active"] == 2
    events = jobs.events("train")
    assert not any("Restarting" in event or "Failed" in event for event in events), events
    assert sorted(jobs.pods()) == sorted([stays, "train-worker-1"])


@pytest.mark.case(11)
@pytest.mark.thorough
def test_a_job_deleted_while_its_pods_start_leaves_nothing(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    for number in range(5):
        jobs.create("TFJob", f"train-{number}", Worker=jobs.role(3, SLEEP))
    eventually(lambda: len(jobs.pods()) > 0, "pods start")
    for number in range(5):
        jobs.delete("TFJob", f"train-{number}")
    jobs.wait_nothing_left()
    # A job of the same name waits for the names of the old pods, and does not adopt them.
    jobs.create("TFJob", "train-0", Worker=jobs.role(3, PASS))
    assert jobs.ended("TFJob", "train-0")["type"] == "Succeeded"


def test_a_job_of_the_same_name_starts_at_once(jobs: Jobs, operator: OperatorProcess) -> None:
    jobs.create("TFJob", "train", Worker=jobs.role(2, SLEEP))
    jobs.wait("TFJob", "train", "Running")
    jobs.delete("TFJob", "train")
    jobs.create("TFJob", "train", Worker=jobs.role(2, PASS))
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"


def test_a_job_managed_by_another_controller_is_left_alone(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    managed = {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}
    jobs.create("TFJob", "theirs", spec=managed, Worker=jobs.role(1, PASS))
    jobs.create("TFJob", "ours", Worker=jobs.role(1, PASS))
    jobs.ended("TFJob", "ours")
    theirs = jobs.get("TFJob", "theirs") or {}
    assert not theirs.get("status")
    assert "annotations" not in theirs["metadata"]
    assert "theirs-worker-0" not in jobs.pods()


def _owner(jobs: Jobs, name: str) -> str:
    owners = (jobs.pod(name) or {})["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))


def _label(jobs: Jobs, name: str, label: str | None, kind: Kind = PODS) -> None:
    """Add the labels of that job to a pod or another object."""
    change = {"metadata": {"labels": {"training.kubeflow.org/job-name": label}}}
    path = kind.path(jobs.namespace, name)
    jobs.connection.request("PATCH", path, change, content_type=MERGE)


def _limit_to_one_pod(jobs: Jobs) -> str:
    """Return the path of the quota, once it is in force."""
    quotas = f"/api/v1/namespaces/{jobs.namespace}/resourcequotas"
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    jobs.connection.request("POST", quotas, few)
    eventually(
        lambda: "hard" in jobs.connection.request("GET", f"{quotas}/few")["status"],
        "it is in force",
    )
    return f"{quotas}/few"

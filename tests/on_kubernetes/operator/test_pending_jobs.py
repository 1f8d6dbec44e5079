"""Jobs that do not start report the reason on their objects. Selection of namespaces."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Any

import pytest

from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.operator.operator_process import Jobs, OperatorProcess, operating
from windlass.kube.api.connection import Connection
from windlass.operator.pods.events import FIRST_PAUSE, PodEvents


def waits_for(jobs: Jobs, name: str) -> list[str]:
    return [event for event in jobs.events(name) if event.startswith("ReplicaWaiting: ")]


def test_an_image_that_cannot_be_pulled_is_reported_on_the_job(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    container = {"image": "registry.invalid/nobody/nothing:1"}
    jobs.create("TFJob", "train", Worker=jobs.role(2, "pass", container=container))
    eventually(lambda: bool(waits_for(jobs, "train")), "it is reported")
    assert "train-worker-" in waits_for(jobs, "train")[0]
    assert "registry.invalid/nobody/nothing:1" in waits_for(jobs, "train")[0]


@pytest.mark.thorough
def test_a_repeatedly_failing_pull_is_reported_once(jobs: Jobs, operator: OperatorProcess) -> None:
    """Between two tries a pod only reports that there will be another."""
    container = {"image": "registry.invalid/nobody/nothing:1"}
    jobs.create("TFJob", "train", Worker=jobs.role(1, "pass", container=container))
    for state in ("ImagePullBackOff", "ErrImagePull", "ImagePullBackOff"):
        eventually(lambda state=state: waiting_as(jobs.pod("train-worker-0")) == state, state)
    jobs.create("TFJob", "after", Worker=jobs.role(1, "pass"))
    assert jobs.ended("TFJob", "after")["type"] == "Succeeded"
    [message] = waits_for(jobs, "train")
    assert "cannot be found from the cluster" in message


def waiting_as(pod: Any) -> str:
    """The reason for which the container of a pod waits, from the kubelet."""
    statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    return str(((statuses[0].get("state") or {}).get("waiting") or {}).get("reason"))


def test_an_unknown_field_of_a_pod_is_reported_once_with_a_suggestion(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    role = jobs.role(2, "pass", container={"comand": ["x"]}, pod={"hostNetwrok": True})
    jobs.create("TFJob", "train", Worker=role)
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    ignored = "FieldIgnored: a pod has no field spec.{}. This part of the template is ignored."
    events = [event for event in jobs.events("train") if event.startswith("FieldIgnored")]
    assert sorted(events) == [
        ignored.format("containers[tensorflow].comand") + " Did you mean command?",
        ignored.format("hostNetwrok") + " Did you mean hostNetwork?",
    ]


def test_a_pod_that_fits_on_no_machine_is_reported_on_the_job_once(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    resources: dict[str, Any] = {"resources": {"requests": {"memory": "900Ti"}}}
    jobs.create("PyTorchJob", "huge", Master=jobs.role(1, "pass", container=resources))
    eventually(lambda: bool(waits_for(jobs, "huge")), "it is reported")
    # Another reconcile reports nothing new.
    jobs.patch("PyTorchJob", "huge", {"spec": {"runPolicy": {"backoffLimit": 2}}})
    small = jobs.role(1, "import sys; sys.exit(3)", restartPolicy="Never")
    jobs.create("PyTorchJob", "small", Master=small)
    end = jobs.ended("PyTorchJob", "small")
    assert end["type"] == "Failed"
    assert len(waits_for(jobs, "huge")) == 1
    assert "huge-master-0 does not start: " in waits_for(jobs, "huge")[0]


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"secret": {"secretName": "nothing"}}, "There is no secret nothing in namespace"),
        pytest.param(
            {"configMap": {"name": "nothing"}},
            "There is no config map nothing in namespace",
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            {"hostPath": {"path": "/no/such", "type": "Directory"}},
            "A volume cannot be mounted: ",
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["secret", "config map", "folder"],
)
def test_a_volume_that_cannot_be_mounted_is_reported_on_the_job_once(
    jobs: Jobs, operator: OperatorProcess, volume: dict[str, Any], message: str
) -> None:
    pod = {"volumes": [{"name": "data", **volume}]}
    container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    jobs.create("TFJob", "train", Worker=jobs.role(2, "pass", pod=pod, container=container))
    eventually(lambda: bool(waits_for(jobs, "train")), "it is reported")
    assert f" does not start: {message}" in waits_for(jobs, "train")[0]
    if "secret" in volume:  # it is true of both, and of no other job
        jobs.create("TFJob", "other", Worker=jobs.role(1, "pass"))
        assert jobs.ended("TFJob", "other")["type"] == "Succeeded"
        path = f"/api/v1/namespaces/{jobs.namespace}/secrets"
        jobs.connection.request("POST", path, {"metadata": {"name": "nothing"}})
        end = jobs.wait("TFJob", "train", "Succeeded", "Failed", patience=2 * PATIENCE)
        assert end["type"] == "Succeeded"
        assert (len(waits_for(jobs, "train")), waits_for(jobs, "other")) == (1, [])


@dataclass(frozen=True, kw_only=True)
class NotedConnection(Connection):
    """A connection that records its reads with their times."""

    notes: list[tuple[float, str]]

    def open(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        self.notes.append((time.monotonic(), path))
        return super().open(method, path, body, **more)


def test_events_are_read_per_namespace_and_less_and_less_often(
    cluster: Cluster, jobs: Jobs
) -> None:
    fields_by_name = {
        field.name: getattr(jobs.connection, field.name) for field in fields(jobs.connection)
    }
    connection = NotedConnection(**fields_by_name, notes=[])
    gone: set[str] = set()
    woken: list[str] = []
    pods = [
        {"metadata": {"namespace": jobs.namespace, "name": f"pod-{number}", "uid": str(number)}}
        for number in range(20)
    ]

    def wake(uid: str) -> None:
        woken.append(uid)
        look()

    def look() -> None:
        for pod in pods:
            events.of(pod, "job")

    events = PodEvents(connection, wake=wake, waits=lambda uid: uid not in gone)
    try:
        look()
        eventually(lambda: woken == ["job"], "one question is asked for all of them")
        # Pods that have started meanwhile are not queried.
        gone |= {str(number) for number in range(20)}
        started = {"metadata": {"namespace": "elsewhere", "name": "pod", "uid": "0"}}
        events.of(started, "other")
        waiting = {"metadata": {"namespace": jobs.namespace, "name": "pod", "uid": "20"}}
        events.of(waiting, "last")
        eventually(lambda: len(woken) > 1, "another question is asked")
        assert woken == ["job", "last"]
        (first, path), (second, same_path) = connection.notes
        assert path == same_path == f"/api/v1/namespaces/{jobs.namespace}/events"
        assert second - first >= 2 * FIRST_PAUSE - 0.1
    finally:
        events.stop()
    assert not events.has_died


@pytest.mark.thorough
def test_a_failure_names_the_replica_also_if_it_is_the_only_one(
    jobs: Jobs, operator: OperatorProcess
) -> None:
    role = jobs.role(1, "import sys; sys.exit(3)", restartPolicy="Never")
    jobs.create("PyTorchJob", "train", Master=role)
    end = jobs.ended("PyTorchJob", "train")
    assert end["message"].startswith("master-0: exit code 3")
    message = "ReplicaFailed: master-0: exit code 3"
    eventually(
        lambda: any(event.startswith(message) for event in jobs.events("train")), "it is reported"
    )


def test_a_missing_namespace_is_reported_and_still_watched(cluster: Cluster, jobs: Jobs) -> None:
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


def test_only_the_selected_namespaces_are_managed(
    cluster: Cluster, jobs: Jobs, others: list[Jobs]
) -> None:
    named, left = [jobs, others[0]], others[1]
    # One of them twice, which is equal to once.
    words = [
        word
        for namespace_jobs in [*named, jobs]
        for word in ("--namespace", namespace_jobs.namespace)
    ]
    with operating(cluster, *words, "--alone") as process:
        left.create("TFJob", "train", Worker=left.role(1, "pass"))
        for lab in named:
            lab.create("TFJob", "train", Worker=lab.role(2, "pass"))
        for lab in named:
            assert lab.ended("TFJob", "train")["type"] == "Succeeded"
            assert lab.attempt("train-worker-0") == lab.attempt("train-worker-1") == 1
        alone = left.get("TFJob", "train") or {}
        assert "status" not in alone
        assert "annotations" not in alone["metadata"]
        assert not left.pods()
        assert left.namespace not in process.ask("/metrics")[1]

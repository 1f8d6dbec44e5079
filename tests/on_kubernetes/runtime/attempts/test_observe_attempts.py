"""Reports of the runtime of pods, for queries at any time and frequency."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, pods_of
from windlass.kube.api.connection import connect
from windlass.model.hardware.resources import Resources
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.kubernetes.job_options import KubernetesOptions
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes.kubernetes.attempts import pending_reasons
from windlass.runtimes.kubernetes.runtime import KubernetesRuntime
from windlass.runtimes.kubernetes.server_context import KubernetesContext

PODS = 40


@pytest.fixture
def runtime(cluster: Cluster, tmp_path: Path) -> Iterator[KubernetesRuntime]:
    """A runtime without a server."""
    around = KubernetesContext(
        connect=lambda: connect(config_file=str(cluster.kubeconfig)),
        worker=lambda: b"",
        token_for=lambda uid: uid,
        urls=lambda: ["http://nobody.invalid"],
        url=lambda: "http://nobody.invalid",
        image=cluster.image,
    )
    made = KubernetesRuntime(tmp_path, around)
    yield made
    made.close()


def job_of(namespace: Namespace, **options: Any) -> Job:
    chosen = KubernetesOptions(namespace=namespace.name, **options)
    role = Role(executable=ProcessCall(argv=("true",)), replicas=PODS, kubernetes=chosen)
    role = msgspec.structs.replace(role, resources=Resources(cpus=0.001))
    return Job(uid="0123456789abcdef" * 2, trial_id=1, spec=JobSpec(roles=(role,)), name="many")


class RequestLog(logging.Handler):
    """Records the paths of GET requests for a resource, from the log of the HTTP client."""

    def __init__(self, resource: str) -> None:
        super().__init__(logging.DEBUG)
        self.paths: list[str] = []
        self._pattern = re.compile(rf'"GET (\S+/{resource}\?\S*) ')
        self._log = logging.getLogger("urllib3.connectionpool")
        self._level = self._log.level

    def emit(self, record: logging.LogRecord) -> None:
        self.paths += self._pattern.findall(record.getMessage())

    def __enter__(self) -> RequestLog:
        self._log.addHandler(self)
        self._log.setLevel(logging.DEBUG)
        return self

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)
        self._log.setLevel(self._level)


@pytest.mark.thorough
def test_unscheduled_pods_are_explained_without_a_request(
    runtime: KubernetesRuntime, namespace: Namespace
) -> None:
    job = job_of(namespace, node_selector={"planet": "x"})
    with RequestLog("events") as event_requests, RequestLog("pods") as pod_requests:
        make_all(runtime, job)
        eventually(
            lambda: are_reported(runtime, job, "(planet=x)"),
            "all waits are reported with their reasons",
        )
    assert event_requests.paths == []
    assert pod_requests.paths, "what is asked for is counted"
    runtime.release(job.uid)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


@pytest.mark.waits
def test_all_pending_pods_of_a_namespace_are_explained_by_one_request(
    runtime: KubernetesRuntime, namespace: Namespace
) -> None:
    job = job_of(namespace, volumes={"/data": "secret:none"})
    began = time.monotonic()
    with RequestLog("events") as event_requests:
        make_all(runtime, job)
        message = f"There is no secret none in namespace {namespace.name}."
        eventually(
            lambda: are_reported(runtime, job, message), "all waits are reported with their reasons"
        )
        # After the reports, the pods are checked again now and then.
        seen = len(event_requests.paths)
        eventually(lambda: len(event_requests.paths) > seen, "they are looked at again")
    passed = time.monotonic() - began
    assert len(event_requests.paths) <= passed / pending_reasons.SOON + 1, "however many wait"
    assert len(event_requests.paths) < PODS
    runtime.release(job.uid)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def make_all(runtime: KubernetesRuntime, job: Job) -> None:
    """Create all its pods, and list all attempts at each notification."""
    runtime.watch(lambda _uid: runtime.list(job))
    for index in range(PODS):
        runtime.create(job, ReplicaId("main", index, 1), Assignment())


def are_reported(runtime: KubernetesRuntime, job: Job, what: str) -> bool:
    seen = runtime.list(job)
    return len(seen) == PODS and all(what in replica.message for replica in seen)


@pytest.mark.thorough
def test_a_pod_that_is_being_created_is_never_taken_for_a_lost_one(
    runtime: KubernetesRuntime, namespace: Namespace
) -> None:
    # On a node that does not exist: the test is about their creation, not their programs.
    job = job_of(namespace, node_selector={"planet": "x"})
    is_over = threading.Event()
    ends: list[str] = []

    def look() -> None:
        while not is_over.is_set():
            ends.extend(
                str(replica) for replica in runtime.list(job) if replica.phase is not Phase.PENDING
            )

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for index in range(PODS):
            runtime.create(job, ReplicaId("main", index, 1), Assignment())
        eventually(lambda: bool(ends) or len(pods_of(namespace)) == PODS, "all are made")
    finally:
        is_over.set()
        for looker in lookers:
            looker.join()
    assert ends == []
    runtime.release(job.uid)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")

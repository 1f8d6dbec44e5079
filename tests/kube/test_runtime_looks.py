"""What the runtime of pods reports, however often and whenever it is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import eventually
from kube.access import Cluster
from kube.pods import Namespace
from kube.trials import is_empty, pods_of
from windlass.kube.connecting import connect
from windlass.model.job import Assignment, Job, JobSpec, ProcessCall, Role
from windlass.model.kubernetes import KubernetesOptions
from windlass.model.status import Phase, ReplicaId
from windlass.runtimes.kubernetes.runtime import KubernetesRuntime
from windlass.runtimes.kubernetes.surroundings import Surroundings

PODS = 40


@pytest.fixture
def runtime(cluster: Cluster, tmp_path: Path) -> Iterator[KubernetesRuntime]:
    """A runtime without a server around it."""
    around = Surroundings(
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


def test_a_pod_that_is_being_made_is_never_taken_for_one_that_is_gone(
    runtime: KubernetesRuntime, namespace: Namespace
) -> None:
    # On no node there is: it is their making that is looked at, not what they do.
    options = KubernetesOptions(namespace=namespace.name, node_selector={"planet": "x"})
    executable = ProcessCall(argv=("true",))
    role = Role(executable=executable, replicas=PODS, kubernetes=options)
    job = Job(uid="0123456789abcdef" * 2, trial_id=1, spec=JobSpec(roles=(role,)), name="many")
    is_over = threading.Event()
    ends: list[str] = []

    def look() -> None:
        while not is_over.is_set():
            ends.extend(str(each) for each in runtime.list(job) if each.phase is not Phase.PENDING)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for each in lookers:
        each.start()
    try:
        for index in range(PODS):
            runtime.create(job, ReplicaId("main", index, 1), Assignment())
        eventually(lambda: bool(ends) or len(pods_of(namespace)) == PODS, "all are made")
    finally:
        is_over.set()
        for each in lookers:
            each.join()
    assert ends == []
    runtime.release(job.uid)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")

"""`deploy/operator.yaml` in a cluster: two operators, with the rights it gives and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness import eventually
from kube.access import Cluster
from kube.cluster.windlass_image import have_windlass_image
from kube.deploying import bring, logs_of, manifests, pods_of, remove, wait_available
from kube.operating import Jobs
from windlass.kube.kinds import LEASES, PODS
from windlass.operator.leading import LEASE_NAME

NAMESPACE, NAME = "windlass", "windlass-operator"


@pytest.fixture
def deployed(alone: Cluster, jobs: Jobs) -> Iterator[None]:
    """The manifests as they are, but for the name of the image."""
    things = manifests("operator.yaml", have_windlass_image())
    try:
        bring(jobs.connection, things)
        wait_available(jobs.connection, NAMESPACE, NAME, 2)
        yield
    finally:
        remove(jobs.connection, things)


def test_two_operators_run_and_one_acts_with_the_rights_they_are_given(
    deployed: None, jobs: Jobs
) -> None:
    die = "import os, sys; sys.exit(137 if os.environ['WINDLASS_ATTEMPT'] == '1' else 0)"
    policy = {"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 600}
    jobs.create(
        "TFJob", "train", spec={"runPolicy": policy},
        Chief=jobs.role(1, die, restartPolicy="ExitCode"),
        Worker=jobs.role(2, "import time; time.sleep(1000)"),
    )  # fmt: skip
    assert jobs.ended("TFJob", "train")["type"] == "Succeeded"
    jobs.wait_nothing_left()
    eventually(
        lambda: any(each.startswith("Completed: ") for each in jobs.events("train")), "it is told"
    )
    # The one that acts goes, and the other takes over.
    first = _leader(jobs)
    jobs.connection.request("DELETE", PODS.path(NAMESPACE, first), {"gracePeriodSeconds": 0})
    jobs.create("PyTorchJob", "next", Master=jobs.role(1, "pass"))
    assert jobs.ended("PyTorchJob", "next")["type"] == "Succeeded"
    assert _leader(jobs) != first
    wait_available(jobs.connection, NAMESPACE, NAME, 2)
    for pod in pods_of(jobs.connection, NAMESPACE, NAME):
        said = logs_of(jobs.connection, NAMESPACE, pod["metadata"]["name"])
        assert "Looking after the jobs of all namespaces" in said
        assert "may not" not in said
        assert "Traceback" not in said
        [container] = pod["status"]["containerStatuses"]
        assert container["restartCount"] == 0, said


def _leader(jobs: Jobs) -> str:
    """The pod that holds the lease."""
    lease = jobs.connection.request("GET", LEASES.path(NAMESPACE, LEASE_NAME))
    return str(lease["spec"]["holderIdentity"]).rpartition("_")[0]

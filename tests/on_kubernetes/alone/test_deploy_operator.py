"""`deploy/operator.yaml` in a cluster: two operators with exactly its permissions."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness import eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.deploy.manifests import (
    bring,
    is_gone,
    logs_of,
    manifests,
    pods_of,
    remove,
    wait_available,
)
from on_kubernetes.operator.operator_process import SLEEP, Jobs
from windlass.kube.api.resource_kinds import LEASES, PODS, Object
from windlass.operator.leader_election import lease_name

NAMESPACE = NAME = "windlass-operator"


@contextmanager
def deployed(jobs: Jobs, things: list[Object]) -> Iterator[None]:
    """The operator in the cluster, for the duration of the block."""
    try:
        bring(jobs.connection, things)
        wait_available(jobs.connection, NAMESPACE, NAME, 2)
        yield
    finally:
        remove(jobs.connection, things)


def test_two_operators_run_and_one_acts_with_the_granted_permissions(
    windlass_image: str, alone: Cluster, jobs: Jobs
) -> None:
    """The manifests unchanged, except for the name of the image."""
    things = manifests("operator.yaml", windlass_image)
    with deployed(jobs, things):
        _check_it_works(jobs, "all namespaces", lease_name())
        jobs.create("TFJob", "stays", Worker=jobs.role(1, SLEEP))
        jobs.wait("TFJob", "stays", "Running")
    assert [thing["kind"] for thing in things if not is_gone(jobs.connection, thing)] == []
    jobs.wait_running("stays-worker-0")
    assert jobs.is_remembered("TFJob", "stays")


@pytest.mark.thorough
def test_with_permissions_in_one_namespace_that_one_is_managed(
    windlass_image: str, alone: Cluster, jobs: Jobs
) -> None:
    """The manifests with the changes that they describe themselves."""
    things = manifests("operator.yaml", windlass_image)
    with deployed(jobs, [_narrowed(thing, jobs.namespace) for thing in things]):
        _check_it_works(jobs, f"namespace {jobs.namespace}", lease_name([jobs.namespace]))


def _check_it_works(jobs: Jobs, where: str, lease: str) -> None:
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
        lambda: any(event.startswith("Completed: ") for event in jobs.events("train")),
        "it is reported",
    )
    # The acting operator is deleted, and the other takes over.
    first = _leader(jobs, lease)
    jobs.connection.request("DELETE", PODS.path(NAMESPACE, first), {"gracePeriodSeconds": 0})
    jobs.create("PyTorchJob", "next", Master=jobs.role(1, "pass"))
    assert jobs.ended("PyTorchJob", "next")["type"] == "Succeeded"
    assert _leader(jobs, lease) != first
    wait_available(jobs.connection, NAMESPACE, NAME, 2)
    for pod in pods_of(jobs.connection, NAMESPACE, NAME):
        log = logs_of(jobs.connection, NAMESPACE, pod["metadata"]["name"])
        assert f"Managing the jobs of {where} at" in log
        assert "may not" not in log
        assert "Traceback" not in log
        [container] = pod["status"]["containerStatuses"]
        assert container["restartCount"] == 0, log


def _leader(jobs: Jobs, name: str) -> str:
    """The pod that holds the lease."""
    lease = jobs.connection.request("GET", LEASES.path(NAMESPACE, name))
    return str(lease["spec"]["holderIdentity"]).rpartition("_")[0]


def _narrowed(thing: Object, namespace: str) -> Object:
    """Restrict the objects for all namespaces to one namespace."""
    changed = copy.deepcopy(thing)
    if thing["kind"] in ("ClusterRole", "ClusterRoleBinding"):
        changed["kind"] = thing["kind"].removeprefix("Cluster")
        changed["metadata"]["namespace"] = namespace
    if thing["kind"] == "ClusterRoleBinding":
        changed["roleRef"]["kind"] = "Role"
    if thing["kind"] == "Deployment":
        [container] = changed["spec"]["template"]["spec"]["containers"]
        container["args"] = ["--namespace", namespace]
    return changed

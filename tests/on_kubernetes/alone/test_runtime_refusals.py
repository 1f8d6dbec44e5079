"""Refusals before anything is created: requests larger than any machine, and unknown queues."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.accounts import log_in_with_few_rights
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import is_empty, pods_of, python, there
from windlass.client.client import default_client
from windlass.kube.quantity import parse_quantity

pytestmark = pytest.mark.usefixtures("home_with_cluster")

GROUP = "kueue.x-k8s.io"
QUEUES = {
    "metadata": {"name": f"localqueues.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "localqueues", "singular": "localqueue", "kind": "LocalQueue"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": True,
                    },
                },
            },
        ],
    },
}  # fmt: skip


@pytest.fixture
def queues(alone: Cluster, admin: client.ApiClient) -> Iterator[client.CustomObjectsApi]:
    """The definition of Kueue's queues, without a controller for them."""
    definitions = client.ApiextensionsV1Api(admin)
    api = client.CustomObjectsApi(admin)
    definitions.create_custom_resource_definition(QUEUES)

    def is_served() -> bool:
        try:
            api.list_cluster_custom_object(GROUP, "v1beta1", "localqueues")
        except client.ApiException as error:
            assert error.status == 404
            return False
        return True

    try:
        eventually(is_served, "queues can be made")
        yield api
    finally:
        definitions.delete_custom_resource_definition(f"localqueues.{GROUP}")
        eventually(lambda: not is_served(), "they are gone")


def is_nothing_made(namespace: Namespace) -> bool:
    return is_empty(namespace) and not list(default_client().list_trials())


def test_more_than_any_machine_has_is_refused_with_the_largest_machine(
    core: client.CoreV1Api, namespace: Namespace
) -> None:
    has = [node.status.allocatable for node in core.list_node().items]
    most = max(parse_quantity(resources["cpu"]) for resources in has)
    with pytest.raises(wl.ResourceError, match=f"the largest has {most:g} CPU"):
        python("", namespace, executor=there(namespace, cpus=most + 1)).submit()
    with pytest.raises(wl.ResourceError, match=r"memory='1\.0 PB' is more than any machine"):
        python("", namespace, executor=there(namespace, memory="1PB")).submit()
    executor = there(namespace, accelerator="h100x8", cpus=most + 1, memory="1PB")
    with pytest.raises(wl.ResourceError) as refused:
        python("", namespace, executor=executor).submit()
    message = str(refused.value)
    assert message.startswith("2 problems:\n  - 'h100x8' is not available in this cluster"), message
    assert f"\n  - cpus={most + 1:g} and memory='1.0 PB' are more than any machine" in message
    assert is_nothing_made(namespace)


def waits(namespace: Namespace, executor: wl.Kubernetes) -> None:
    """Check that a job is accepted, and has a pod that waits for a machine."""
    trial = python("", namespace, executor=executor).submit()
    eventually(lambda: bool(pods_of(namespace)), "it has a pod")
    trial.stop(grace=0)
    trial.wait(timeout=PATIENCE)
    eventually(lambda: is_empty(namespace), "nothing is left in the cluster")


def test_a_selection_of_machines_disables_the_size_check(namespace: Namespace) -> None:
    waits(namespace, there(namespace, cpus=5000, node_selector={"size": "huge"}))


def test_machines_on_demand_disable_the_size_check(
    alone: Cluster, core: client.CoreV1Api, namespace: Namespace
) -> None:
    [node] = [node.metadata.name for node in core.list_node().items]
    core.patch_node(node, {"metadata": {"labels": {"karpenter.sh/nodepool": "default"}}})
    try:
        waits(namespace, there(namespace, cpus=5000))
    finally:
        core.patch_node(node, {"metadata": {"labels": {"karpenter.sh/nodepool": None}}})


def test_a_queue_is_refused_without_kueue(alone: Cluster, namespace: Namespace) -> None:
    with pytest.raises(wl.KubernetesError, match="needs Kueue, which this cluster does not have"):
        python("", namespace, executor=there(namespace, queue="team-a")).submit()
    assert is_nothing_made(namespace)


def test_an_unknown_queue_is_refused_with_the_known_ones(
    alone: Cluster, queues: client.CustomObjectsApi, namespace: Namespace, tmp_path: Path
) -> None:
    made = {
        "apiVersion": f"{GROUP}/v1beta1",
        "kind": "LocalQueue",
        "metadata": {"name": "team-a"},
    }
    queues.create_namespaced_custom_object(GROUP, "v1beta1", namespace.name, "localqueues", made)
    with pytest.raises(wl.KubernetesError) as caught:
        python("", namespace, executor=there(namespace, queue="team-b")).submit()
    assert f"There is no queue team-b in namespace {namespace.name}." in str(caught.value)
    assert "Did you mean team-a?" in str(caught.value)
    assert is_nothing_made(namespace)
    trial = python("print('in')", namespace, executor=there(namespace, queue="team-a")).submit()
    eventually(lambda: bool(pods_of(namespace)), "it has a pod")
    [pod] = pods_of(namespace).values()
    assert _queue_of(pod) == "team-a"
    trial.wait(timeout=PATIENCE)  # no controller suspends it: only the definition exists
    wrong = there(namespace, queue="team-b")
    # An account without access to queues skips the check.
    log_in_with_few_rights(alone, namespace.name, tmp_path)
    trial = python("print('in')", namespace, executor=wrong).submit()
    eventually(
        lambda: "team-b" in [_queue_of(pod) for pod in pods_of(namespace).values()], "it is taken"
    )
    trial.wait(timeout=PATIENCE)


def _queue_of(pod: client.V1Pod) -> str:
    return str(pod.metadata.labels[f"{GROUP}/queue-name"])

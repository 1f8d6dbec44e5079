"""Accelerators on a real cluster whose node offers some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

import windlass as wl
from harness import PATIENCE, eventually
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.fake_accelerators import accelerators
from on_kubernetes.pods import Namespace
from on_kubernetes.runtime.trials import (
    log_lines,
    pods_of,
    python,
    replica_messages,
    restart,
    there,
)
from windlass.kube.api.connection import Connection
from windlass.kube.capacity.list_nodes import list_nodes
from windlass.kube.capacity.nodes import (
    GKE_GPU,
    GKE_TOPOLOGY,
    GKE_TPU,
    GPU,
    PRODUCT,
    TPU,
    placement,
)
from windlass.model.hardware.resources import Accelerator

A100X2 = Accelerator(kind="a100", count=2)

STAY = """if True:
    import time
    import windlass as wl

    print("begun", flush=True)
    while not wl.should_stop():
        time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "labels",
    [
        {PRODUCT: "NVIDIA-A100-SXM4-40GB"},
        pytest.param({GKE_GPU: "nvidia-tesla-a100"}, marks=pytest.mark.thorough),
        pytest.param(
            {PRODUCT: "NVIDIA-A100-SXM4-80GB", GKE_GPU: "nvidia-a100-80gb"},
            marks=pytest.mark.thorough,
        ),
    ],
    ids=["operator", "gke", "both"],
)
def test_a_pod_with_an_accelerator_runs_on_a_machine_that_has_it(
    connection: Connection,
    core: client.CoreV1Api,
    namespace: Namespace,
    labels: dict[str, str],
) -> None:
    with accelerators(core, {GPU: 4}, labels) as node:
        for nodes in (list_nodes(connection), None):
            name = "seen" if nodes is not None else "unseen"
            placed = placement(A100X2, 1, nodes)
            spec: dict[str, Any] = {
                "nodeSelector": placed.node_selector,
                "tolerations": [*placed.tolerations],
            }
            if placed.node_terms:
                terms = {"nodeSelectorTerms": [*placed.node_terms]}
                required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
                spec["affinity"] = {"nodeAffinity": required}
            namespace.python(name, "print(1)", resources=placed.resources, **spec)
            eventually(lambda name=name: _node_of(core, namespace, name) == node, f"{name} placed")


def test_a_missing_accelerator_is_refused_with_the_available_ones(
    connection: Connection, core: client.CoreV1Api
) -> None:
    with accelerators(core, {GPU: 4}, {PRODUCT: "Tesla-T4"}):
        nodes = list_nodes(connection)
        with pytest.raises(wl.ResourceError, match=r"it has t4 \(4 on 1 machine\)"):
            placement(A100X2, 1, nodes)
        with pytest.raises(wl.ResourceError, match="the largest of this cluster has 4"):
            placement(Accelerator(kind="t4", count=8), 1, nodes)


def test_a_tpu_is_found_by_its_grid(connection: Connection, core: client.CoreV1Api) -> None:
    labels = {GKE_TPU: "tpu-v5-lite-podslice", GKE_TOPOLOGY: "2x4"}
    with accelerators(core, {TPU: 8}, labels):
        nodes = list_nodes(connection)
        placed = placement(Accelerator(kind="v5e", count=8), 1, nodes)
        assert (placed.node_selector, placed.resources) == (labels, {TPU: "8"})
        with pytest.raises(wl.ResourceError, match=r"it has v5e-8 \(8 on 1 machine\)"):
            placement(Accelerator(kind="v5e", count=16), 4, nodes)


def test_an_attempt_waits_for_another_machine_after_its_machine_is_gone(
    home_with_cluster: Path,
    cluster: Cluster,
    core: client.CoreV1Api,
    namespace: Namespace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = {"gpu.nvidia.com/class": "A100_PCIE_40GB"}  # which only one cloud has
    with accelerators(core, {GPU: 4}, labels):
        executor = there(namespace, accelerator="a100x2")
        job = python(STAY, namespace, executor=executor, restart_policy="ExitCode")
        trial = job.submit()
        eventually(lambda: log_lines(trial) == ["begun"], "it runs")
    [first] = pods_of(namespace)
    # A new server, which has seen no machine, but has the records of the previous one.
    restart(home_with_cluster, monkeypatch, cluster.kubeconfig)
    core.delete_namespaced_pod(first, namespace.name)
    eventually(lambda: "the requested labels" in replica_messages(trial), "its next pod waits")
    with pytest.raises(wl.ResourceError, match="'a100x2' is not available in this cluster"):
        job.submit()
    with accelerators(core, {GPU: 4}, labels):
        eventually(lambda: log_lines(trial)[-2:] == ["begun", "begun"], "it runs again")
        trial.ask_to_stop()
        assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED", log_lines(trial)


def _node_of(core: client.CoreV1Api, namespace: Namespace, name: str) -> str | None:
    node_name: str | None = core.read_namespaced_pod(name, namespace.name).spec.node_name
    return node_name

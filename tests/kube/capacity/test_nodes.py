"""Accelerators on clusters with different labels of nodes."""

from __future__ import annotations

from typing import Any

import pytest

import windlass as wl
from windlass.kube.capacity.machine_sizes import check_size
from windlass.kube.capacity.nodes import (
    GKE_GPU,
    GKE_POOL,
    GKE_TOPOLOGY,
    GKE_TPU,
    GPU,
    PRODUCT,
    TPU,
    Node,
    Placement,
    describe_accelerators,
    parse_node,
    placement,
)
from windlass.model.hardware.accelerators import parse_accelerator
from windlass.model.hardware.resources import Accelerator, Resources


def requested(text: str) -> Accelerator:
    accelerator = parse_accelerator(text)
    assert accelerator is not None
    return Accelerator(kind=accelerator[0], count=accelerator[1])


def gpus(count: int, **labels: str) -> Node:
    names = {"product": PRODUCT, "gke": GKE_GPU}
    return Node(
        name="n",
        labels={names[key]: value for key, value in labels.items()},
        allocatable={"cpu": "8", GPU: str(count)},
    )


def tpus(count: int, label: str, topology: str, pool: str = "pool") -> Node:
    labels = {GKE_TPU: label, GKE_TOPOLOGY: topology, **({GKE_POOL: pool} if pool else {})}
    return Node(name="n", labels=labels, allocatable={TPU: str(count)})


def test_cpu_jobs_request_no_accelerator() -> None:
    assert placement(None, 1, []) == Placement()


def test_any_gpu_is_only_counted() -> None:
    placed = placement(requested("gpux2"), 1, [gpus(4)])
    assert placed.resources == {GPU: "2"}
    assert not placed.node_selector
    assert not placed.node_terms
    assert placed.tolerations == ({"key": GPU, "operator": "Exists", "effect": "NoSchedule"},)


@pytest.mark.parametrize(
    ("node", "selector"),
    [
        (gpus(8, gke="nvidia-tesla-a100"), {GKE_GPU: "nvidia-tesla-a100"}),
        (gpus(8, product="NVIDIA-A100-SXM4-40GB"), {PRODUCT: "NVIDIA-A100-SXM4-40GB"}),
        (gpus(8, product="NVIDIA-A100-SXM4-80GB"), {PRODUCT: "NVIDIA-A100-SXM4-80GB"}),
        (
            gpus(8, product="NVIDIA-A100-PCIE-40GB-SHARED", gke="nvidia-tesla-a100"),
            {PRODUCT: "NVIDIA-A100-PCIE-40GB-SHARED"},
        ),
    ],
)
def test_a_model_is_selected_by_the_label_of_the_nodes(
    node: Node, selector: dict[str, str]
) -> None:
    others = [gpus(8, product="Tesla-T4"), Node(name="plain")]
    placed = placement(requested("a100x2"), 1, [node, *others])
    assert placed.node_selector == selector
    assert placed.resources == {GPU: "2"}


def test_several_labels_of_one_model_are_all_used() -> None:
    nodes = [
        gpus(8, product="NVIDIA-H100-80GB-HBM3"),
        gpus(8, product="NVIDIA-H100-PCIe"),
        gpus(8, gke="nvidia-h100-80gb"),
    ]
    placed = placement(requested("h100"), 1, nodes)
    assert not placed.node_selector
    assert [term["matchExpressions"][0] for term in placed.node_terms] == [
        {"key": PRODUCT, "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe"]},
        {"key": GKE_GPU, "operator": "In", "values": ["nvidia-h100-80gb"]},
    ]


def test_without_access_to_nodes_the_common_labels_are_used() -> None:
    placed = placement(requested("a100"), 1, None)
    values = {
        term["matchExpressions"][0]["key"]: term["matchExpressions"][0]["values"]
        for term in placed.node_terms
    }
    assert "nvidia-tesla-a100" in values[GKE_GPU]
    assert "nvidia-a100-80gb" in values[GKE_GPU], "a larger one serves as well"
    assert "NVIDIA-A100-SXM4-40GB" in values[PRODUCT]
    assert not placement(requested("gpu"), 1, None).node_terms


@pytest.mark.parametrize("kind", [k.name for k in wl.accelerators() if k.family == "gpu"])
def test_every_gpu_of_the_table_can_be_requested_without_access_to_nodes(kind: str) -> None:
    placed = placement(requested(kind), 1, None)
    assert placed.node_selector or placed.node_terms or kind == "gpu"


def test_a_missing_accelerator_is_refused_with_the_available_ones() -> None:
    nodes = [gpus(8, gke="nvidia-l4"), gpus(8, gke="nvidia-l4"), gpus(1, product="Tesla-T4")]
    with pytest.raises(wl.ResourceError) as caught:
        placement(requested("h100"), 1, nodes)
    assert "'h100' is not available in this cluster" in str(caught.value)
    assert "l4 (16 on 2 machines), t4 (1 on 1 machine)" in str(caught.value)
    with pytest.raises(wl.ResourceError, match="it has no accelerators"):
        placement(requested("gpu"), 1, [Node(name="plain")])


def test_more_than_one_machine_has_is_refused_with_a_suggestion() -> None:
    with pytest.raises(wl.ResourceError) as caught:
        placement(requested("h100x16"), 1, [gpus(8, product="NVIDIA-H100-80GB-HBM3")])
    assert "needs 16 GPUs on one machine; the largest of this cluster has 8" in str(caught.value)
    assert "h100x8 and more replicas" in str(caught.value)


def test_tainted_machines_are_named_with_the_toleration() -> None:
    taint = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}
    usual = {"key": GPU, "value": "present", "effect": "NoSchedule"}
    node = gpus(8, gke="nvidia-l4")
    closed = Node(name="n", labels=node.labels, allocatable=node.allocatable, taints=(usual, taint))
    with pytest.raises(wl.ResourceError) as caught:
        placement(requested("l4"), 1, [closed])
    assert "with a taint (dedicated=ml:NoSchedule)" in str(caught.value)
    ours: dict[str, Any] = {"key": "dedicated", "operator": "Equal", "value": "ml"}
    assert placement(requested("l4"), 1, [closed], tolerations=[ours]).resources == {GPU: "1"}


def test_an_explicit_node_selection_is_used_unchecked() -> None:
    selector = {GKE_GPU: "nvidia-h100-80gb"}
    placed = placement(requested("h100x8"), 1, [Node(name="plain")], node_selector=selector)
    assert placed.resources == {GPU: "8"}
    assert not placed.node_terms, "theirs says it"


def test_only_existing_nodes_of_the_selection_count() -> None:
    there = gpus(2, gke="nvidia-h100-80gb")
    with pytest.raises(wl.ResourceError, match="the largest of this cluster has 2"):
        placement(requested("h100x8"), 1, [there], node_selector={GKE_GPU: "nvidia-h100-80gb"})


def test_a_gpu_slice_does_not_count_as_a_gpu_of_that_model() -> None:
    node = gpus(7, product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb")
    assert node.kind == "gpu"
    with pytest.raises(wl.ResourceError):
        placement(requested("a100"), 1, [node])


@pytest.mark.parametrize(
    ("text", "replicas", "chips", "label", "topology"),
    [
        ("v5e-1", 1, "1", "tpu-v5-lite-podslice", "1x1"),
        ("v5e-8", 1, "8", "tpu-v5-lite-podslice", "2x4"),
        ("v5e-16", 4, "4", "tpu-v5-lite-podslice", "4x4"),
        ("v5litepod-256", 64, "4", "tpu-v5-lite-podslice", "16x16"),
        ("v6e-8", 1, "8", "tpu-v6e-slice", "2x4"),
        ("v4-8", 1, "4", "tpu-v4-podslice", "2x2x1"),
        ("v4-32", 4, "4", "tpu-v4-podslice", "2x2x4"),
        ("v5p-8", 1, "4", "tpu-v5p-slice", "2x2x1"),
        ("v5p-128", 16, "4", "tpu-v5p-slice", "4x4x4"),
        ("v3-8", 1, "4", "tpu-v3-device", "2x2"),
        ("v3-32", 4, "4", "tpu-v3-slice", "4x4"),
    ],
)
def test_a_tpu_has_its_machines_in_their_grid(
    text: str, replicas: int, chips: str, label: str, topology: str
) -> None:
    placed = placement(requested(text), replicas, None)
    assert placed.resources == {TPU: chips}
    assert placed.node_selector == {GKE_TPU: label, GKE_TOPOLOGY: topology}
    assert placed.together == (GKE_POOL if replicas > 1 else "")
    there = [tpus(int(chips), label, topology)] * replicas
    assert placement(requested(text), replicas, there) == placed


def test_a_tpu_of_several_machines_needs_as_many_replicas() -> None:
    with pytest.raises(wl.ResourceError, match="4 machines of 4 chips") as caught:
        placement(requested("v5e-16"), 1, None)
    assert "replicas=4" in str(caught.value)


def test_a_tpu_of_several_machines_needs_one_node_pool() -> None:
    def some(count: int, pool: str) -> list[Node]:
        return [tpus(4, "tpu-v5-lite-podslice", "4x4", pool)] * count

    with pytest.raises(wl.ResourceError) as caught:
        placement(requested("v5e-16"), 4, [*some(2, "one"), *some(3, "two"), *some(1, "")])
    assert "'v5e-16' is 4 machines of one node pool" in str(caught.value)
    assert "1 outside of any, 2 in one, 3 in two" in str(caught.value)
    with pytest.raises(wl.ResourceError, match="4 outside of any"):
        placement(requested("v5e-16"), 4, some(4, ""))
    placed = placement(requested("v5e-16"), 4, [*some(2, "one"), *some(4, "two")])
    assert placed.together == GKE_POOL
    with pytest.raises(wl.ResourceError, match="2 in one"):
        wanted = {GKE_POOL: "one"}
        placement(requested("v5e-16"), 4, [*some(2, "one"), *some(4, "two")], node_selector=wanted)


def test_a_tpu_of_one_machine_may_be_in_any_pool_or_none() -> None:
    for pool in ("pool", ""):
        assert not placement(
            requested("v6e-8"), 1, [tpus(8, "tpu-v6e-slice", "2x4", pool)]
        ).together


def test_a_tpu_of_another_size_is_refused_with_the_available_sizes() -> None:
    nodes = [tpus(4, "tpu-v5-lite-podslice", "4x4")] * 4
    with pytest.raises(wl.ResourceError, match=r"v5e-16 \(16 on 4 machines\)"):
        placement(requested("v5e-8"), 1, nodes)
    with pytest.raises(wl.ResourceError, match="no machines with TPUs of the generation v2"):
        placement(requested("v2-8"), 1, None)


def test_a_node_is_read_from_its_api_object() -> None:
    node = parse_node(
        {
            "metadata": {"name": "gpu-1", "labels": {GKE_GPU: "nvidia-l4"}},
            "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "7910m", "nvidia.com/gpu": "2"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )
    assert (node.name, node.kind, node.count, node.is_ready) == ("gpu-1", "l4", 2, True)
    assert describe_accelerators([node]) == "it has l4 (2 on 1 machine)"
    bare = parse_node({})
    assert (bare.kind, bare.count, bare.is_ready) == ("", 0, False)


def test_the_maximum_of_each_resource_may_be_on_different_machines() -> None:
    fast = Node(name="fast", allocatable={"cpu": "64", "memory": "32Gi"})
    large = Node(name="large", allocatable={"cpu": "4", "memory": "512Gi"})
    with pytest.raises(wl.ResourceError, match=r"one has 64 CPUs, another 549\.8 GB for pods"):
        check_size(Resources(cpus=128, memory=2 << 40), [fast, large])

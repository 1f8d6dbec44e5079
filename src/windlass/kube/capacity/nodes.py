"""Reads the accelerators of nodes, and selects nodes that have a requested accelerator.

All functions are pure. `parse_node` converts a node from the API to a `Node`. A node selector makes
the scheduler place a pod on nodes that have certain labels. Clusters label their nodes differently,
so the selectors built here use labels that the nodes actually have. If the account has no
permission to list nodes, the selectors use common labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from windlass.model.errors import ResourceError
from windlass.model.hardware.accelerators import KINDS, is_tpu, kind_of_device, satisfies
from windlass.model.hardware.resources import Accelerator
from windlass.model.hardware.tpus import TpuSize, tpu_size, tpu_sizes

GPU = "nvidia.com/gpu"
TPU = "google.com/tpu"

GKE_GPU = "cloud.google.com/gke-accelerator"
PRODUCT = "nvidia.com/gpu.product"  # set by NVIDIA's GPU operator
_GPU_LABELS = (PRODUCT, GKE_GPU, "gpu.nvidia.com/class", "k8s.amazonaws.com/accelerator")
GKE_TPU = "cloud.google.com/gke-tpu-accelerator"
GKE_TOPOLOGY = "cloud.google.com/gke-tpu-topology"
GKE_POOL = "cloud.google.com/gke-nodepool"  # the label that all machines of one TPU slice share

_TPU_KINDS = {
    "tpu-v3-device": "v3",
    "tpu-v3-slice": "v3",
    "tpu-v4-podslice": "v4",
    "tpu-v5-lite-device": "v5e",
    "tpu-v5-lite-podslice": "v5e",
    "tpu-v5p-slice": "v5p",
    "tpu-v6e-slice": "v6e",
}

# The node labels of GKE and of NVIDIA's GPU operator, used if the account may not list nodes.
_USUAL: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "t4": (("nvidia-tesla-t4",), ("Tesla-T4",)),
    "v100": (
        ("nvidia-tesla-v100",),
        ("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB", "Tesla-V100-PCIE-16GB",
         "Tesla-V100-PCIE-32GB", "Tesla-V100-SXM3-32GB"),
    ),
    "p100": (("nvidia-tesla-p100",), ("Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB")),
    "a10": ((), ("NVIDIA-A10", "NVIDIA-A10G")),
    "a40": ((), ("NVIDIA-A40",)),
    "a100": (("nvidia-tesla-a100",), ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB")),
    "a100-80gb": (("nvidia-a100-80gb",), ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe")),
    "l4": (("nvidia-l4",), ("NVIDIA-L4",)),
    "l40s": ((), ("NVIDIA-L40S",)),
    "h100": (
        ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
        ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL"),
    ),
    "h200": (("nvidia-h200-141gb",), ("NVIDIA-H200", "NVIDIA-H200-NVL")),
    "b200": (("nvidia-b200",), ("NVIDIA-B200",)),
    "rtx3090": ((), ("NVIDIA-GeForce-RTX-3090",)),
    "rtx4090": ((), ("NVIDIA-GeForce-RTX-4090",)),
    "rtx5090": ((), ("NVIDIA-GeForce-RTX-5090",)),
    "rtxa6000": ((), ("NVIDIA-RTX-A6000",)),
}  # fmt: skip


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """The capacity and labels of one node."""

    name: str
    labels: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    is_ready: bool = True
    is_cordoned: bool = False

    @property
    def kind(self) -> str:
        """The kind of the node's accelerators, or "" if the node has none."""
        if self.count == 0:
            return ""
        if _amount(self.allocatable, TPU):
            return _TPU_KINDS.get(self.labels.get(GKE_TPU, ""), "")
        titles = [self.labels[label] for label in _GPU_LABELS if label in self.labels]
        kinds = [kind_of_device(title) for title in titles if not _is_slice(title)]
        return next((kind for kind in kinds if kind != "gpu"), "gpu")

    @property
    def count(self) -> int:
        """The number of accelerators of the node."""
        return _amount(self.allocatable, GPU) or _amount(self.allocatable, TPU)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The pod fields that request accelerators. They are merged into the pod `spec` unchanged."""

    resources: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    node_terms: tuple[dict[str, Any], ...] = ()  # alternative terms of a required node affinity
    tolerations: tuple[dict[str, str], ...] = ()
    together: str = ""  # all pods of a role must run on nodes with the same value of this label


def parse_node(obj: Mapping[str, Any]) -> Node:
    """Convert a node object from the API to a `Node`."""
    metadata, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    status = obj.get("status") or {}
    ready = [
        condition
        for condition in status.get("conditions") or ()
        if condition.get("type") == "Ready"
    ]
    return Node(
        name=metadata.get("name", ""),
        labels=metadata.get("labels") or {},
        allocatable=status.get("allocatable") or {},
        taints=tuple(
            {key: str(taint.get(key) or "") for key in ("key", "value", "effect")}
            for taint in spec.get("taints") or ()
        ),
        is_ready=any(condition.get("status") == "True" for condition in ready),
        is_cordoned=bool(spec.get("unschedulable")),
    )


def placement(
    accelerator: Accelerator | None,
    replicas: int,
    nodes: Sequence[Node] | None,
    *,
    tolerations: Sequence[Mapping[str, Any]] = (),
    node_selector: Mapping[str, str] | None = None,
) -> Placement:
    """Return the pod fields that request an accelerator for each pod of a role.

    A GPU count applies to each pod. A TPU size applies to all pods together, so a TPU slice of
    several machines needs one replica per machine. Raises `ResourceError` if no node can satisfy
    the request. `nodes` is None if the account has no permission to list nodes. The cluster may add
    nodes on demand, so a `node_selector` that matches no existing node is accepted.
    """
    if accelerator is None:
        return Placement()
    candidates = nodes
    if nodes is not None and node_selector:
        candidates = [
            node for node in nodes if node_selector.items() <= node.labels.items()
        ] or None
    if is_tpu(accelerator.kind):
        return _tpu(accelerator, replicas, candidates)
    return _gpu(accelerator, candidates, tolerations, node_selector or {})


def _gpu(
    accelerator: Accelerator,
    nodes: Sequence[Node] | None,
    tolerations: Sequence[Mapping[str, Any]],
    node_selector: Mapping[str, str],
) -> Placement:
    tolerated = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    fitting = None if nodes is None else _fitting(accelerator, nodes, [tolerated, *tolerations])
    terms: tuple[dict[str, Any], ...] = ()
    if accelerator.kind != "gpu" and not set(node_selector) & set(_GPU_LABELS):
        terms = _usual_terms(accelerator.kind) if fitting is None else _terms(fitting)
    selector: dict[str, str] = {}
    if len(terms) == 1:
        [expression] = terms[0]["matchExpressions"]
        if len(expression["values"]) == 1:
            selector, terms = {expression["key"]: expression["values"][0]}, ()
    return Placement(
        resources={GPU: str(accelerator.count)},
        node_selector=selector,
        node_terms=terms,
        tolerations=(tolerated,),
    )


def _fitting(
    accelerator: Accelerator, nodes: Sequence[Node], tolerations: Sequence[Mapping[str, Any]]
) -> list[Node]:
    """Return the nodes that can run a pod with this accelerator when the nodes are free.

    Raises `ResourceError` if there is no such node.
    """
    of_kind = [
        node
        for node in nodes
        if _amount(node.allocatable, GPU) and node.kind and satisfies(node.kind, accelerator.kind)
    ]
    if not of_kind:
        raise ResourceError(
            f"'{accelerator}' is not available in this cluster: {describe_accelerators(nodes)}.",
            hint=f"{_one_of_these(nodes)}{_ON_DEMAND}",
        )
    large = [node for node in of_kind if _amount(node.allocatable, GPU) >= accelerator.count]
    if not large:
        most = max(_amount(node.allocatable, GPU) for node in of_kind)
        raise ResourceError(
            f"'{accelerator}' needs {accelerator.count} GPUs on one machine; "
            f"the largest of this cluster has {most}.",
            hint=f"Request {Accelerator(kind=accelerator.kind, count=most)} and more replicas.",
        )
    open_ones = [node for node in large if not _untolerated(node, tolerations)]
    if not open_ones:
        taint = _untolerated(large[0], tolerations)[0]
        value = f'"operator": "Equal", "value": "{taint["value"]}"'
        operator = value if taint["value"] else '"operator": "Exists"'
        raise ResourceError(
            f"'{accelerator}' is only on machines with a taint "
            f"({taint['key']}={taint['value']}:{taint['effect']}).",
            hint="If you may use them, add tolerations="
            f'[{{"key": "{taint["key"]}", {operator}, "effect": "{taint["effect"]}"}}] '
            "of wl.Kubernetes.",
        )
    return open_ones


_ON_DEMAND = (
    "If the cluster adds machines on demand, select them: node_selector= of wl.Kubernetes, "
    f'such as {{"{GKE_GPU}": "nvidia-l4"}}.'
)


def _tpu(accelerator: Accelerator, replicas: int, nodes: Sequence[Node] | None) -> Placement:
    size = tpu_size(accelerator.kind, accelerator.count)
    if size is None:
        names = ", ".join(tpu.name for tpu in tpu_sizes(accelerator.kind)[:10])
        raise ResourceError(f"There is no TPU '{accelerator}'.", hint=f"The sizes are: {names}.")
    if replicas != size.hosts:
        raise ResourceError(
            f"'{size.name}' is {size.hosts} machines of {size.chips_per_host} chips each; "
            f"the role has {replicas} replica{'' if replicas == 1 else 's'}.",
            hint=f"Write replicas={size.hosts}. Each replica has the chips of one machine.",
        )
    label = _tpu_label(size, nodes)
    return Placement(
        resources={TPU: str(size.chips_per_host)},
        node_selector={GKE_TPU: label, GKE_TOPOLOGY: size.topology},
        tolerations=({"key": TPU, "operator": "Exists", "effect": "NoSchedule"},),
        together=GKE_POOL if size.hosts > 1 else "",
    )


def _tpu_label(size: TpuSize, nodes: Sequence[Node] | None) -> str:
    kind = size.name.partition("-")[0]
    labels = [label for label, of in _TPU_KINDS.items() if of == kind]
    if not labels:
        raise ResourceError(
            f"Kubernetes has no machines with TPUs of the generation {kind}.",
            hint=f"The generations are {', '.join(sorted(set(_TPU_KINDS.values())))}.",
        )
    if nodes is None:
        # Single-machine v3 TPUs have a special label. All other TPUs have the general label.
        return labels[0] if kind == "v3" and size.hosts == 1 else labels[-1]
    labelled = [
        node
        for node in nodes
        if node.labels.get(GKE_TPU) in labels
        and node.labels.get(GKE_TOPOLOGY) == size.topology
        and _amount(node.allocatable, TPU) == size.chips_per_host
    ]
    # Machines in different pools have no fast connection, so their sizes cannot be added up.
    pools = Counter((node.labels[GKE_TPU], node.labels.get(GKE_POOL, "")) for node in labelled)
    for label in labels:
        if any(
            of == label and count >= size.hosts and (pool or size.hosts == 1)
            for (of, pool), count in pools.items()
        ):
            return label
    demand = (
        "If the cluster adds machines on demand, select them: node_selector= "
        f'of wl.Kubernetes, such as {{"{GKE_TOPOLOGY}": "{size.topology}"}}.'
    )
    if labelled:
        raise ResourceError(
            f"'{size.name}' is {size.hosts} machines of one node pool, and no pool of "
            f"this cluster has so many: {_by_pool(pools)}.",
            hint=f"Request a smaller TPU, or add a pool of {size.hosts}. {demand}",
        )
    raise ResourceError(
        f"'{size.name}' ({size.topology} on {size.hosts} "
        f"machine{'' if size.hosts == 1 else 's'}) is not available in this cluster: "
        f"{describe_accelerators(nodes)}.",
        hint=f"{_one_of_these(nodes)}{demand}",
    )


def _by_pool(pools: Mapping[tuple[str, str], int]) -> str:
    """Describe how many machines each node pool has.

    >>> _by_pool({("tpu-v6e-slice", "a"): 2, ("tpu-v6e-slice", ""): 1})
    '1 outside of any, 2 in a'
    """
    counts = sorted((pool, count) for (_, pool), count in pools.items())
    return ", ".join(
        f"{count} {f'in {pool}' if pool else 'outside of any'}" for pool, count in counts
    )


def _one_of_these(nodes: Iterable[Node]) -> str:
    return "Request one of these. " if any(node.count for node in nodes) else ""


def describe_accelerators(nodes: Iterable[Node]) -> str:
    """Describe the accelerators of these nodes as display text.

    >>> labels = {GKE_GPU: "nvidia-l4"}
    >>> describe_accelerators(
    ...     [Node(name="a", labels=labels, allocatable={GPU: "2"}), Node(name="b")]
    ... )
    'it has l4 (2 on 1 machine)'
    >>> describe_accelerators([Node(name="b")])
    'it has no accelerators'
    """
    counts: dict[str, list[int]] = {}
    for node in nodes:
        if node.count:
            counts.setdefault(_named(node), []).append(node.count)
    if not counts:
        return "it has no accelerators"
    order = [kind.name for kind in KINDS]
    names = sorted(counts, key=lambda name: (name not in order, name))
    return "it has " + ", ".join(f"{name} ({_counts(counts[name])})" for name in names)


def _named(node: Node) -> str:
    if not node.kind or not is_tpu(node.kind):
        return node.kind or "TPUs of an unknown kind"
    topology = node.labels.get(GKE_TOPOLOGY, "")
    sizes = [size.name for size in tpu_sizes(node.kind) if size.topology == topology]
    return sizes[0] if sizes else node.kind


def _counts(counts: Sequence[int]) -> str:
    machines = "1 machine" if len(counts) == 1 else f"{len(counts)} machines"
    return f"{sum(counts)} on {machines}"


def _terms(nodes: Sequence[Node]) -> tuple[dict[str, Any], ...]:
    """Return node selector terms that match the GPU model labels of exactly these nodes."""
    values: dict[str, set[str]] = {}
    for node in nodes:
        label = next(
            gpu_label
            for gpu_label in _GPU_LABELS
            if gpu_label in node.labels and kind_of_device(node.labels[gpu_label]) == node.kind
        )
        values.setdefault(label, set()).add(node.labels[label])
    return tuple(_term(label, sorted(values[label])) for label in _GPU_LABELS if label in values)


def _usual_terms(kind: str) -> tuple[dict[str, Any], ...]:
    kinds = [kind_name for kind_name in _USUAL if satisfies(kind_name, kind)]
    by_gke = [value for kind_name in kinds for value in _USUAL[kind_name][0]]
    by_operator = [value for kind_name in kinds for value in _USUAL[kind_name][1]]
    named = ((PRODUCT, by_operator), (GKE_GPU, by_gke))
    return tuple(_term(label, values) for label, values in named if values)


def _term(label: str, values: Sequence[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]}


def _untolerated(node: Node, tolerations: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [
        taint
        for taint in node.taints
        if taint["effect"] in ("NoSchedule", "NoExecute")
        and not taint["key"].startswith("node.kubernetes.io/")  # temporary, on unhealthy nodes
        and not any(_tolerates(toleration, taint) for toleration in tolerations)
    ]


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    is_any = toleration.get("operator") == "Exists"
    return is_any or str(toleration.get("value") or "") == taint["value"]


def _is_slice(title: str) -> bool:
    """Return whether a device is only a part (a MIG slice) of a GPU."""
    return "-MIG-" in title.upper()


def _amount(resources: Mapping[str, str], name: str) -> int:
    text = str(resources.get(name, "0"))
    return int(text) if text.isdecimal() else 0

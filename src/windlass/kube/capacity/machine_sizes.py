"""Refuses resource requests that exceed every machine of a cluster.

An autoscaler may add nodes that are larger than the existing nodes. Not every account may query the
autoscaler, but nodes of an autoscaled group have a label that names the group. If any node has such
a label, no request is refused, and the scheduler reports why a pod waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from windlass.kube.capacity.nodes import Node
from windlass.kube.quantity import parse_quantity
from windlass.model.errors import ResourceError
from windlass.model.hardware.resources import Resources
from windlass.model.text.quantities import format_size

# Labels on nodes whose group may grow by larger machines, added by an autoscaler or a person.
_GROUPS = (
    "karpenter.sh/nodepool",
    "karpenter.sh/provisioner-name",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "doks.digitalocean.com/node-pool",
    "eks.amazonaws.com/compute-type",  # Fargate creates a node of the size that the pod needs
    "kops.k8s.io/instancegroup",
    "lke.linode.com/pool-id",
)
_ANYWHERE = Resources(cpus=1.0, memory=2 << 30)  # an amount that every machine has


def may_exceed_machines(requested: Resources) -> bool:
    """Return whether a request is so large that some machine might be too small for it.

    >>> may_exceed_machines(Resources(cpus=1)), may_exceed_machines(Resources(cpus=64))
    (False, True)
    """
    return requested.cpus > _ANYWHERE.cpus or requested.memory > _ANYWHERE.memory


def check_size(
    requested: Resources, nodes: Sequence[Node], node_selector: Mapping[str, str] | None = None
) -> None:
    """Raise a `ResourceError` if a request exceeds every machine.

    >>> oak = Node(name="oak", allocatable={"cpu": "15900m", "memory": "64Gi"})
    >>> check_size(Resources(cpus=8), [oak])
    >>> check_size(Resources(cpus=64), [oak])
    Traceback (most recent call last):
    windlass.ResourceError: cpus=64 is more than any machine of this cluster has: \
the largest has 15.9 CPUs for pods.
      Request less, or use more replicas. If the cluster adds larger machines on demand, select \
them: node_selector= of wl.Kubernetes.
    >>> check_size(Resources(cpus=64, memory=1 << 40), [oak])
    Traceback (most recent call last):
    windlass.ResourceError: cpus=64 and memory='1.1 TB' are more than any machine of this cluster \
has: the largest has 15.9 CPUs and 68.7 GB for pods.
      Request less, or use more replicas. If the cluster adds larger machines on demand, select \
them: node_selector= of wl.Kubernetes.
    """
    candidates = [node for node in nodes if (node_selector or {}).items() <= node.labels.items()]
    if not candidates or any(set(_GROUPS) & set(node.labels) for node in nodes):
        return
    sizes = [_size_of(node) for node in candidates]
    if any(cpus >= requested.cpus and memory >= requested.memory for cpus, memory in sizes):
        return
    most_cpus, most_memory = max(cpus for cpus, _ in sizes), max(memory for _, memory in sizes)
    too_much = []  # each excessive resource and the largest available amount of it
    if requested.cpus > most_cpus:
        too_much.append((f"cpus={requested.cpus:g}", _cpus(most_cpus)))
    if requested.memory > most_memory:
        memory = format_size(int(most_memory))
        too_much.append((f"memory={format_size(requested.memory)!r}", memory))
    if too_much:
        names, are = " and ".join(name for name, _ in too_much), "are"
        most = "the largest has " + " and ".join(amount for _, amount in too_much)
        if len(too_much) == 1:
            are = "is"
        elif (most_cpus, most_memory) not in sizes:
            most = f"one has {_cpus(most_cpus)}, another {format_size(int(most_memory))}"
        message = f"{names} {are} more than any machine of this cluster has: {most} for pods."
    else:
        with_cpus = max(memory for cpus, memory in sizes if cpus >= requested.cpus)
        message = (
            f"No machine of this cluster has {_cpus(requested.cpus)} and "
            f"{format_size(requested.memory)} together: the largest machine with so many "
            f"CPUs has {format_size(int(with_cpus))} for pods."
        )
    raise ResourceError(
        message,
        hint="Request less, or use more replicas. If the cluster adds larger machines on "
        "demand, select them: node_selector= of wl.Kubernetes.",
    )


def _size_of(node: Node) -> tuple[float, float]:
    has = node.allocatable
    return parse_quantity(has.get("cpu", "0")), parse_quantity(has.get("memory", "0"))


def _cpus(count: float) -> str:
    """Return a number of CPUs as display text.

    >>> _cpus(1), _cpus(15.9)
    ('1 CPU', '15.9 CPUs')
    """
    return f"{count:g} CPU" + ("" if count == 1 else "s")

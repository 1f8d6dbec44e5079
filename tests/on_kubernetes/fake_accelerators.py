"""Fake accelerators: the node offers some, and pods get them."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kubernetes import client

from on_kubernetes.cluster.locations import NAME

_CLAIM = Path(tempfile.gettempdir()) / f"{NAME}-accelerators.lock"


@contextmanager
def accelerators(
    core: client.CoreV1Api, resources: Mapping[str, int], labels: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Make a node offer resources and have labels for a while. Yields the node's name.

    `with accelerators(core, {"nvidia.com/gpu": 8}, {"nvidia.com/gpu.product": "A100"}) as node:`

    One test at a time does this. The kubelet removes them when it restarts.
    """
    with _CLAIM.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        # Tests add tainted nodes, on which nothing runs.
        node = next(item for item in core.list_node().items if not item.spec.taints)
        before = node.metadata.labels or {}
        _offer(core, node.metadata.name, {name: str(count) for name, count in resources.items()})
        _label(core, node.metadata.name, labels or {})
        try:
            yield node.metadata.name
        finally:
            _offer(core, node.metadata.name, dict.fromkeys(resources))
            _label(core, node.metadata.name, {name: before.get(name) for name in labels or {}})


def _offer(core: client.CoreV1Api, node: str, resources: Mapping[str, str | None]) -> None:
    # The kubelet would compute the allocatable resources from the capacity, but only later.
    core.patch_node_status(node, {"status": {"capacity": resources, "allocatable": resources}})


def _label(core: client.CoreV1Api, node: str, labels: Mapping[str, str | None]) -> None:
    core.patch_node(node, {"metadata": {"labels": labels}})

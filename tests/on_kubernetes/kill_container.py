"""Killing what runs in a pod, as a kernel or an operator of the machine does: from outside."""

from __future__ import annotations

from on_kubernetes.cluster import enclosure
from on_kubernetes.cluster.locations import SOCKET


def kill_container(container_id: str) -> None:
    """Kill the process of a container without a word, as a pod's status names it."""
    enclosure.run_inside(
        "ctr", f"--address={SOCKET}", "--namespace=k8s.io",
        "tasks", "kill", "--signal", "SIGKILL", container_id.removeprefix("containerd://"),
    )  # fmt: skip

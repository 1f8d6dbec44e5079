"""Kill the process of a pod from outside, as the kernel or an administrator does."""

from __future__ import annotations

from on_kubernetes.cluster import enclosure
from on_kubernetes.cluster.locations import SOCKET


def kill_container(container_id: str) -> None:
    """Send SIGKILL to the process of a container, as named in the pod's status."""
    enclosure.run_inside(
        "ctr", f"--address={SOCKET}", "--namespace=k8s.io",
        "tasks", "kill", "--signal", "SIGKILL", container_id.removeprefix("containerd://"),
    )  # fmt: skip

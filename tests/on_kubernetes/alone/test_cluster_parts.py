"""The parts of the cluster, each stopped and started separately."""

from __future__ import annotations

import pytest

from harness import eventually
from on_kubernetes.cluster.parts import part_named
from on_kubernetes.cluster_access import Cluster
from on_kubernetes.pods import Namespace, is_node_ready

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    "name",
    [
        "etcd",
        "containerd",
        "apiserver",
        "controller-manager",
        "scheduler",
        "dns",
        "proxy",
        "pod-removal",
    ],
)
def test_a_part_can_be_stopped_and_started_separately(
    name: str, alone: Cluster, namespace: Namespace
) -> None:
    part = part_named(name)
    namespace.pod("lasting", "sleep", "1000")
    namespace.wait_running("lasting")
    part.stop()
    assert part.pid is None
    part.start()
    part.wait()
    _run_pod_again(namespace)
    assert namespace.phase("lasting") == "Running"


def test_a_node_with_a_stopped_kubelet_is_not_ready(alone: Cluster, namespace: Namespace) -> None:
    kubelet = part_named("kubelet")
    kubelet.stop()
    try:
        eventually(lambda: not is_node_ready(namespace.core), "the node is not ready")
    finally:
        kubelet.start()
        kubelet.wait()
        eventually(lambda: is_node_ready(namespace.core), "the node is ready")
    _run_pod_again(namespace)


def _run_pod_again(namespace: Namespace) -> None:
    """Run a pod from its creation to its end, with a DNS lookup. Restarted parts may be slow."""
    program = """
import socket, time
for _ in range(300):
    try:
        socket.getaddrinfo("kubernetes.default", 443)
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit("no name")
"""
    namespace.python("afterwards", program)
    namespace.output("afterwards")

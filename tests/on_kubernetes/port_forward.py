"""A port of a pod on this machine, like `kubectl port-forward`."""

from __future__ import annotations

import socket

from kubernetes import client
from kubernetes.stream import portforward
from kubernetes.stream.ws_client import PortForward

from on_kubernetes.cluster_access import Cluster
from tcp_relay import Way


class Forwarded(Way):
    """The port of a pod, at `url`. A context manager."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, port: int) -> None:
        self._cluster = cluster
        self._namespace, self._pod, self._port = namespace, pod, port
        self._forwards: list[PortForward] = []
        super().__init__(self._forward)
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Forwarded:
        return self

    def _forward(self) -> socket.socket:
        # A separate client, because forwarding changes how the client sends requests.
        core = client.CoreV1Api(self._cluster.admin())
        forward = portforward(
            core.connect_get_namespaced_pod_portforward, self._pod, self._namespace,
            ports=str(self._port),
        )  # fmt: skip
        self._forwards.append(forward)  # it ends when no reference is left
        far: socket.socket = forward.socket(self._port)
        return far

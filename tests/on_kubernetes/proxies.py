"""A network between a client and the API server that a test can break."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from on_kubernetes.cluster_access import Cluster
from tcp_relay import Way


class Proxy(Way):
    """A proxy to a cluster's API: see `cut`, `shut` and `recover`, `hold` and `go_on`."""

    def __init__(self, cluster: Cluster) -> None:
        self._config = yaml.safe_load(cluster.kubeconfig.read_text())
        address = urlsplit(self._config["clusters"][0]["cluster"]["server"])
        self.target = (str(address.hostname), int(address.port or 443))
        self._passes = threading.Event()
        self._passes.set()
        super().__init__(self._reach)

    def __enter__(self) -> Proxy:
        return self

    def close(self) -> None:
        self._passes.set()
        super().close()

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig for the cluster through this proxy."""
        there = self._config["clusters"][0]
        server = f"https://127.0.0.1:{self.port}"
        through = {**there["cluster"], "server": server, "tls-server-name": self.target[0]}
        config = {**self._config, "clusters": [{**there, "cluster": through}]}
        path = folder / "through-proxy.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def hold(self) -> None:
        """Accept connections from now on, but transfer nothing."""
        self._passes.clear()

    def go_on(self) -> None:
        """Transfer new and held data."""
        self._passes.set()

    def _reach(self) -> socket.socket:
        self._passes.wait()
        far = socket.create_connection(self.target, timeout=10)
        far.settimeout(None)
        return far

"""A network between a client and the API server that breaks when a test says so."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kube.access import Cluster

_RESET = struct.pack("ii", 1, 0)  # closed so, the other side is told that it broke


class Proxy:
    """Passes on what comes to its port; see `cut`, `hold` and `go_on`. A context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self._config = yaml.safe_load(cluster.kubeconfig.read_text())
        address = urlsplit(self._config["clusters"][0]["cluster"]["server"])
        self._target = (str(address.hostname), int(address.port or 443))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._open = threading.Event()
        self._open.set()
        self._is_over = False
        self.cuts = 0  # connections that were broken
        self._thread = threading.Thread(target=self._accept, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over = True
        self._open.set()
        # A close alone would not wake who waits for a connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._thread.join(10)

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig by which the cluster is reached through this."""
        config: dict[str, Any] = {**self._config}
        there = config["clusters"][0]["cluster"]
        server = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        cluster = {**there, "server": server}
        config["clusters"] = [{**config["clusters"][0], "cluster": cluster}]
        path = folder / "through-proxy.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def cut(self) -> int:
        """Break every connection that there is; how many."""
        with self._lock:
            cut, self._sockets = self._sockets, set()
        for each in cut:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.cuts += len(cut) // 2
        return len(cut) // 2

    def hold(self) -> None:
        """Take connections from now on, and let nothing through them."""
        self._open.clear()

    def go_on(self) -> None:
        """Let through what comes, and what was held."""
        self._open.set()

    def _accept(self) -> None:
        while not self._is_over:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        self._open.wait()
        try:
            far = socket.create_connection(self._target, timeout=10)
        except OSError:  # the API server is away
            near.close()
            return
        far.settimeout(None)
        with self._lock:
            self._sockets |= {near, far}
        if self._is_over:
            self.cut()
        back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
        back.start()
        self._pump(near, far)
        back.join()
        with self._lock:
            self._sockets -= {near, far}
        near.close()
        far.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:  # it was cut
            pass
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

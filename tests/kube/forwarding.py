"""A port of a pod, as one of this machine: what `kubectl port-forward` does."""

from __future__ import annotations

import contextlib
import socket
import threading

from kubernetes import client
from kubernetes.stream import portforward

from kube.access import Cluster


class Forwarded:
    """The port of a pod, at `url`. A context manager."""

    def __init__(self, cluster: Cluster, namespace: str, pod: str, port: int) -> None:
        self._cluster = cluster
        self._namespace, self._pod, self._port = namespace, pod, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="forwarded", daemon=True)

    def __enter__(self) -> Forwarded:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A close alone would not wake who waits for a connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _end(each)
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near,), daemon=True).start()

    def _serve(self, near: socket.socket) -> None:
        # A client of its own: while one forwards, the client's requests are not its usual ones.
        core = client.CoreV1Api(self._cluster.admin())
        with near:
            forward = portforward(
                core.connect_get_namespaced_pod_portforward, self._pod, self._namespace,
                ports=str(self._port),
            )  # fmt: skip
            with contextlib.closing(forward.socket(self._port)) as far:
                self._sockets += [near, far]
                back = threading.Thread(target=_pump, args=(far, near), daemon=True)
                back.start()
                _pump(near, far)
                back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:  # one of them is closed
        pass
    _end(source)
    _end(sink)


def _end(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)

"""A way to a cluster's API that can be cut: the cluster goes on, and its user sees nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from kube.access import Cluster


class Front:
    """An address of this machine that leads to the API of a cluster while it is not cut."""

    def __init__(self, cluster: Cluster) -> None:
        self._settings = yaml.safe_load(cluster.kubeconfig.read_text())
        server = urlsplit(self._settings["clusters"][0]["cluster"]["server"])
        self._there = (server.hostname or "", server.port or 443)
        self._lock = threading.Lock()
        self._is_cut = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, name="front", daemon=True).start()

    def kubeconfig(self, folder: Path) -> Path:
        """The cluster's, by this way."""
        cluster = self._settings["clusters"][0]["cluster"]
        cluster["server"] = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        cluster["tls-server-name"] = self._there[0]
        path = folder / "kubeconfig-front"
        path.write_text(yaml.safe_dump(self._settings))
        return path

    def cut(self) -> None:
        """Break all that is open, and let nobody through."""
        with self._lock:
            self._is_cut = True
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let everybody through again."""
        with self._lock:
            self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                inner, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._lead, args=(inner,), daemon=True).start()

    def _lead(self, inner: socket.socket) -> None:
        with contextlib.suppress(OSError), inner, socket.create_connection(self._there) as outer:
            with self._lock:
                if self._is_cut:
                    return
                self._open |= {inner, outer}
            try:
                back = threading.Thread(target=_pipe, args=(outer, inner), daemon=True)
                back.start()
                _pipe(inner, outer)
                back.join()
            finally:
                with self._lock:
                    self._open -= {inner, outer}


def _pipe(source: socket.socket, target: socket.socket) -> None:
    """Carry bytes one way until there are none, then say so at the other end."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

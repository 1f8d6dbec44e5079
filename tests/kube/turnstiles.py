"""A way to the API server that lets through what a test says, and of the rest says: too busy."""

from __future__ import annotations

import json
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import yaml

from kube.access import Cluster

_BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "come back later"}


class Asked(NamedTuple):
    """A request that came."""

    at: float
    method: str
    path: str
    is_refused: bool

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.path

    def is_of(self, kind: str) -> bool:
        """Whether it is about objects of a kind: `pods`."""
        return kind in urlsplit(self.path).path.split("/")


class Turnstile:
    """The API of a cluster, by plain HTTP, one request a connection. A context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self.asked: list[Asked] = []
        self._config = yaml.safe_load(cluster.kubeconfig.read_text())
        self._settings = cluster.admin().configuration
        self._refuses: Callable[[Asked], bool] = lambda _asked: False
        self._retry_after = 1
        turnstile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                turnstile._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Turnstile:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def refuse(self, which: Callable[[Asked], bool], *, retry_after: int = 1) -> None:
        """Be too busy for such requests from now on."""
        self._retry_after = retry_after
        self._refuses = which

    def let_through(self) -> None:
        """Be busy no more."""
        self._refuses = lambda _asked: False

    def refused(self) -> list[Asked]:
        return [each for each in self.asked if each.is_refused]

    def passed(self, method: str, kind: str) -> int:
        """How many requests of a method for a kind were let through."""
        return sum(
            each.method == method and each.is_of(kind) and not each.is_refused
            for each in self.asked
        )

    def busiest_second(self) -> int:
        """How many requests were refused within a second, at the most."""
        times = [each.at for each in self.refused()]
        return max(sum(at <= other < at + 1.0 for other in times) for at in times)

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig by which the cluster is reached through this."""
        there = self._config["clusters"][0]
        config = {**self._config, "clusters": [{**there, "cluster": {"server": self.url}}]}
        path = folder / "through-turnstile.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _answer(self, near: BaseHTTPRequestHandler) -> None:
        came = Asked(time.monotonic(), near.command, near.path, is_refused=False)
        is_refused = self._refuses(came)
        self.asked.append(came._replace(is_refused=is_refused))
        body = near.rfile.read(int(near.headers.get("Content-Length") or 0))
        near.close_connection = True
        if is_refused:
            told = json.dumps(_BUSY).encode()
            near.send_response(429)
            near.send_header("Retry-After", str(self._retry_after))
            near.send_header("Content-Type", "application/json")
            near.send_header("Content-Length", str(len(told)))
            near.end_headers()
            near.wfile.write(told)
            return
        if "Upgrade" not in near.headers:
            del near.headers["Connection"]
            near.headers["Connection"] = "close"
        lines = [f"{near.command} {near.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in near.headers.items()]
        with self._reach() as far:
            far.sendall("\r\n".join([*lines, "", ""]).encode() + body)
            _pipe(near.connection, far)

    def _reach(self) -> ssl.SSLSocket:
        address = urlsplit(self._config["clusters"][0]["cluster"]["server"])
        context = ssl.create_default_context(cafile=self._settings.ssl_ca_cert)
        if self._settings.cert_file:
            context.load_cert_chain(self._settings.cert_file, self._settings.key_file)
        place = (str(address.hostname), address.port or 443)
        return context.wrap_socket(socket.create_connection(place), server_hostname=place[0])


def _pipe(near: socket.socket, far: ssl.SSLSocket) -> None:
    """Carry bytes both ways until one of them is at its end; TLS is not for two threads."""
    far.setblocking(False)
    try:
        while True:
            if not far.pending():
                select.select([near, far], [], [])
            if select.select([near], [], [], 0)[0]:
                data = near.recv(1 << 16)
                if not data:
                    return
                far.setblocking(True)
                far.sendall(data)
                far.setblocking(False)
            try:
                data = far.recv(1 << 16)
            except ssl.SSLWantReadError:
                continue
            if not data:
                return
            near.sendall(data)
    except OSError:
        return  # either end may go at any time

"""A proxy to the API server that answers chosen requests itself: too busy, or not found."""

from __future__ import annotations

import json
import re
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

from on_kubernetes.cluster_access import Cluster
from tcp_relay import Way

_REASONS = {404: "NotFound", 429: "TooManyRequests"}
_VERSION = re.compile(r"(?<=[?&]resourceVersion=)\d+")


class RecordedRequest(NamedTuple):
    """A request that the proxy received."""

    at: float
    method: str
    path: str
    is_refused: bool

    @property
    def is_watch(self) -> bool:
        return "watch=" in self.path

    def is_of(self, kind: str) -> bool:
        """Return whether the request is about objects of a kind, such as `pods`."""
        return kind in urlsplit(self.path).path.split("/")


class Turnstile:
    """The API of a cluster over plain HTTP, with one request per connection. A context manager."""

    def __init__(self, cluster: Cluster) -> None:
        self.requests: list[RecordedRequest] = []
        self._config = yaml.safe_load(cluster.kubeconfig.read_text())
        self._settings = cluster.admin().configuration
        self._refuses: Callable[[RecordedRequest], bool] = lambda _request: False
        self._status = 429
        self._retry_after = 1
        self._forgotten = 0
        self.too_old = 0  # watches that the API server could not continue
        turnstile = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                turnstile._answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

            def log_message(self, *_: object) -> None:
                """Discard the message."""

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

    def refuse(
        self, which: Callable[[RecordedRequest], bool], *, status: int = 429, retry_after: int = 1
    ) -> None:
        """Answer such requests with a status from now on: 429 means too busy."""
        self._status, self._retry_after = status, retry_after
        self._refuses = which

    def forget(self, version: str) -> None:
        """Answer watches from up to that version as expired (410)."""
        self._forgotten = int(version)

    def let_through(self) -> None:
        """Stop being busy."""
        self._refuses = lambda _request: False

    def refused(self) -> list[RecordedRequest]:
        return [request for request in self.requests if request.is_refused]

    def passed(self, method: str, kind: str) -> int:
        """The number of forwarded requests of a method for a kind."""
        return sum(
            request.method == method and request.is_of(kind) and not request.is_refused
            for request in self.requests
        )

    def busiest_second(self) -> int:
        """The maximum number of refused requests within a second."""
        times = [request.at for request in self.refused()]
        return max(sum(at <= other < at + 1.0 for other in times) for at in times)

    def way(self) -> Way:
        """A relay to this proxy that can be shut."""
        address = ("127.0.0.1", self._server.server_port)
        return Way(lambda: socket.create_connection(address))

    def kubeconfig(self, folder: Path, way: Way | None = None) -> Path:
        """A kubeconfig for the cluster through this proxy, and a relay to it."""
        there = self._config["clusters"][0]
        server = self.url if way is None else f"http://127.0.0.1:{way.port}"
        config = {**self._config, "clusters": [{**there, "cluster": {"server": server}}]}
        path = folder / "through-turnstile.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    def _answer(self, near: BaseHTTPRequestHandler) -> None:
        request = RecordedRequest(time.monotonic(), near.command, near.path, is_refused=False)
        is_refused = self._refuses(request)
        self.requests.append(request._replace(is_refused=is_refused))
        request_body = near.rfile.read(int(near.headers.get("Content-Length") or 0))
        near.close_connection = True
        if is_refused:
            reason = {"code": self._status, "reason": _REASONS[self._status]}
            body = json.dumps({"kind": "Status", "message": "refused by a test", **reason}).encode()
            near.send_response(self._status)
            near.send_header("Retry-After", str(self._retry_after))
            near.send_header("Content-Type", "application/json")
            near.send_header("Content-Length", str(len(body)))
            near.end_headers()
            near.wfile.write(body)
            return
        if "Upgrade" not in near.headers:
            del near.headers["Connection"]
            near.headers["Connection"] = "close"
        path = near.path
        asks_from = _VERSION.search(path)
        if request.is_watch and asks_from and int(asks_from[0]) <= self._forgotten:
            self.too_old += 1
            path = _VERSION.sub("1", path)  # which no API server still has
        lines = [f"{near.command} {path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in near.headers.items()]
        with self._reach() as far:
            far.sendall("\r\n".join([*lines, "", ""]).encode() + request_body)
            _pipe(near.connection, far)

    def _reach(self) -> ssl.SSLSocket:
        address = urlsplit(self._config["clusters"][0]["cluster"]["server"])
        context = ssl.create_default_context(cafile=self._settings.ssl_ca_cert)
        if self._settings.cert_file:
            context.load_cert_chain(self._settings.cert_file, self._settings.key_file)
        location = (str(address.hostname), address.port or 443)
        return context.wrap_socket(socket.create_connection(location), server_hostname=location[0])


def _pipe(near: socket.socket, far: ssl.SSLSocket) -> None:
    """Carry bytes in both directions until one side ends. TLS does not support two threads."""
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
        return  # either end may close at any time

"""The HTTP server for the operator's health probes and metrics."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MOST = 32  # the largest number of open connections
_LONGEST = 5.0  # seconds that a connection may be silent

Answer = Callable[[], tuple[int, str]]  # an HTTP status and a body


class HealthServer:
    """Serves a fixed set of paths in its own threads. Each path's response comes from a function.

    >>> import urllib.request
    >>> with HealthServer("127.0.0.1", 0, {"/healthz": lambda: (200, "ok")}) as server:
    ...     urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz").read()
    b'ok'
    """

    def __init__(self, host: str, port: int, answers: Mapping[str, Answer]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _LONGEST

            def do_GET(self) -> None:
                answer = answers.get(self.path.partition("?")[0])
                status, text = (404, "not found") if answer is None else answer()
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- as in the base
                """Log nothing, because probes are frequent."""

        self._server = _Server(host, port, Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="health", daemon=True
        )

    def __enter__(self) -> HealthServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


class _Server(ThreadingHTTPServer):
    """An HTTP server with a connection limit. At the limit, a new connection closes the oldest one.

    The server answers probes at once, so the oldest connection is usually a silent one.
    """

    daemon_threads = True
    request_queue_size = 128  # a probe does not wait behind a few silent connections

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family, *_, address = addresses[0]
        self._lock = threading.Lock()
        self._there: dict[Any, None] = {}  # open connections, the oldest first
        super().__init__((str(address[0]), int(address[1])), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            if len(self._there) >= _MOST:
                longest = next(iter(self._there))
                del self._there[longest]
                with suppress(OSError):  # the connection is already closed
                    longest.shutdown(socket.SHUT_RDWR)
            self._there[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: Any) -> None:
        with self._lock:
            self._there.pop(request, None)

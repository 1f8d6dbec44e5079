"""A proxy between agents and their server that forwards requests and changes some responses."""

from __future__ import annotations

import http.client
import http.server
import threading
from collections.abc import Callable
from contextlib import closing
from urllib.parse import urlsplit

from harness import PATIENCE

Spoil = Callable[[str, bytes], "bytes | None"]  # a request such as `PUT /path`, and its response


class Between(http.server.ThreadingHTTPServer):
    """A port that leads to a server. A context manager.

    `spoil` returns a replacement for a response, or None to send no response.
    """

    daemon_threads = True

    def __init__(self, to: Callable[[], str], spoil: Spoil) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.to = to
        self.spoil = spoil
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Between

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        way = http.client.HTTPConnection(urlsplit(self.server.to()).netloc, timeout=PATIENCE)
        headers = {"Authorization": self.headers["Authorization"]}
        with closing(way):
            way.request(self.command, self.path, body, headers)
            response = way.getresponse()
            answer = self.server.spoil(f"{self.command} {self.path}", response.read())
        if answer is None:
            self.close_connection = True
            return
        self.send_response(response.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_PUT = do_GET

    def log_message(self, *_: object) -> None:
        pass

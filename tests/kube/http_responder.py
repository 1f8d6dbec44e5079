"""A server of this machine in place of a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kube.kubeconfig_files import write_kubeconfig

Handler = TypeVar("Handler", bound=BaseHTTPRequestHandler)


def answer_json(handler: BaseHTTPRequestHandler, status: int, response: Any) -> None:
    """Answer a request."""
    body = json.dumps(response).encode()
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@contextmanager
def answering(
    kind: type[Handler], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[type[Handler]]:
    """Serve a fake cluster with this handler. Yields a subclass of it.

    A handler that sends no response waits for `is_over`, which is set at the end.
    """
    is_over = threading.Event()
    more = {"log_message": lambda *_: None, "is_over": is_over}
    own = type(kind.__name__, (kind,), more)
    server = ThreadingHTTPServer(("127.0.0.1", 0), own)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(folder / "config", "lab", server=url)))
    yield own
    is_over.set()
    server.shutdown()
    server.server_close()

"""A closed watch ends at once with any transfer encoding."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from harness import PATIENCE, eventually
from kube.http_responder import answering
from windlass.kube.api.connection import connect
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.watch import Watcher

LIST = {"items": [], "metadata": {"resourceVersion": "1"}}


class Silent(BaseHTTPRequestHandler):
    """Answers lists, and sends nothing in watches."""

    protocol_version = "HTTP/1.1"
    closes = False
    lists = watches = 0
    is_over: threading.Event

    def do_GET(self) -> None:
        kind = type(self)
        is_watch = "watch=" in self.path
        kind.watches, kind.lists = kind.watches + is_watch, kind.lists + (not is_watch)
        body = b"" if is_watch else json.dumps(LIST).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        if self.closes:  # as many proxies do
            self.send_header("Connection", "close")
        elif is_watch:
            self.send_header("Transfer-Encoding", "chunked")
        if not is_watch:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if is_watch:
            self.is_over.wait(PATIENCE)
            self.close_connection = True


@pytest.fixture
def silent(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Silent]]:
    with answering(Silent, place, monkeypatch) as handler:
        yield handler


@pytest.mark.parametrize("closes", [False, True])
def test_a_restarted_watch_lists_at_once(silent: type[Silent], closes: bool) -> None:
    silent.closes = closes
    watcher = Watcher(connect(), PODS, namespace="lab")
    watcher.start()
    try:
        eventually(lambda: silent.watches == 1, "it watches")
        watcher.renew()
        assert watcher.synced.wait(PATIENCE) and silent.lists == 2
    finally:
        watcher.stop()
    assert not watcher.has_died


def test_a_watch_that_is_already_ending_may_be_closed(silent: type[Silent]) -> None:
    watcher = Watcher(connect(), PODS, namespace="lab")
    watcher.start()
    try:
        eventually(lambda: watcher._response is not None, "it watches")
        response = watcher._response
        watcher.cut()
        response.close()  # like its reader, just when another thread closes it
        watcher._response = response
        watcher.cut()
    finally:
        watcher.stop()

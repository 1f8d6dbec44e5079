"""An unusual object does not hide other objects."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE, eventually
from kube.http_responder import answering
from windlass.kube.api.connection import connect
from windlass.kube.api.resource_kinds import PODS, location_of
from windlass.kube.api.watch import Watcher

DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


class Telling(BaseHTTPRequestHandler):
    """Has one list, and sends the same events to every watch."""

    protocol_version = "HTTP/1.1"
    listed: bytes = b'{"items": [], "metadata": {"resourceVersion": "1"}}'
    lines: tuple[bytes, ...] = ()
    is_over: threading.Event

    def do_GET(self) -> None:
        is_watch = "watch=" in self.path
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in [line + b"\n" for line in self.lines] if is_watch else [self.listed, b""]:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        if is_watch:
            self.is_over.wait(PATIENCE)
            self.close_connection = True


@pytest.fixture
def telling(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Telling]]:
    with answering(Telling, place, monkeypatch) as handler:
        yield handler


def test_a_deeply_nested_object_does_not_hide_others(
    telling: type[Telling],
) -> None:
    listed = [_pod("a", 1, DEEP), _pod("b", 2)]
    telling.listed = b'{"items": [%b], "metadata": {"resourceVersion": "2"}}' % b",".join(listed)
    events = [_pod("c", 3, DEEP), _pod("d", 4)]
    telling.lines = tuple(b'{"type": "ADDED", "object": %b}' % event for event in events)
    with _watching() as watcher:
        eventually(lambda: _names(watcher) == list("abcd"), "all are seen")
        assert watcher.trouble is None


def test_an_unreadable_event_is_reported(telling: type[Telling]) -> None:
    telling.lines = (b'{"type": "ADDED", "object": {}}',)
    with _watching() as watcher:
        eventually(lambda: watcher.trouble is not None, "it is reported")
        assert "The response of the cluster for pods cannot be parsed" in str(watcher.trouble)
        telling.lines = (b'{"type": "ADDED", "object": %b}' % _pod("a", 2),)
        eventually(lambda: _names(watcher) == ["a"], "it goes on once it can")


@contextmanager
def _watching() -> Iterator[Watcher]:
    """A watcher of pods for the duration of the block."""
    watcher = Watcher(connect(), PODS, namespace="lab")
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop()


def _names(watcher: Watcher) -> list[str]:
    return sorted(location_of(item)[1] for item in watcher.items())


def _pod(name: str, version: int, spec: bytes = b"{}") -> bytes:
    metadata: dict[str, Any] = {"name": name, "uid": name, "resourceVersion": str(version)}
    return b'{"metadata": %b, "spec": %b}' % (json.dumps(metadata).encode(), spec)

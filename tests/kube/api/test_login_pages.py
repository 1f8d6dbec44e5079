"""Proxies that answer in place of a cluster with a login page and a success status."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import windlass as wl
from harness import eventually
from kube.http_responder import answering
from windlass.home import Home
from windlass.kube.api.connection import connect
from windlass.kube.api.resource_kinds import PODS
from windlass.kube.api.watch import Watcher
from windlass.kube.check_cluster import examine
from windlass.operator.pods.events import PodEvents
from windlass.runtimes.kubernetes.objects.api_objects import SECRETS, find

PAGE = b"<!DOCTYPE html>\n<title>Log in to the network</title>"
LIST = {"items": [], "metadata": {"resourceVersion": "1"}}


class Proxy(BaseHTTPRequestHandler):
    """Answers every request with a page, except those that a test lets through."""

    is_let_through = False
    status = 200
    page = PAGE
    kind = "text/html; charset=utf-8"

    def do_GET(self) -> None:
        is_list = type(self).is_let_through and "watch=" not in self.path
        body = json.dumps(LIST).encode() if is_list else self.page
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json" if is_list else self.kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


@pytest.fixture
def proxy(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Proxy]]:
    with answering(Proxy, place, monkeypatch) as handler:
        yield handler


@pytest.mark.parametrize("page", [PAGE, b"404 page not found\n", b""])
def test_a_404_of_a_proxy_is_not_taken_for_a_deleted_object(
    proxy: type[Proxy], page: bytes
) -> None:
    proxy.status, proxy.page = 404, page
    with pytest.raises(wl.KubernetesError, match="is not from a Kubernetes API") as caught:
        find(connect(), SECRETS, "lab", "wl-7")
    assert caught.value.status == 0


@pytest.mark.parametrize(
    "odd", [b"[]", pytest.param(b'{"items": [{}]}', marks=pytest.mark.thorough)]
)
def test_unexpected_responses_do_not_keep_an_operator_from_reading_events(
    proxy: type[Proxy], odd: bytes
) -> None:
    proxy.page, proxy.kind = odd, "application/json"
    woken = threading.Event()
    events = PodEvents(connect(), wake=lambda _uid: woken.set(), waits=lambda _uid: True)
    try:
        pod = {"metadata": {"namespace": "lab", "name": "train-0", "uid": "p"}}
        assert events.of(pod, "j") == ()
        assert woken.wait(60), "the job is looked at again, whatever was answered"
        assert not events.has_died
    finally:
        events.stop()


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_login_page_is_reported_as_such(proxy: type[Proxy], kind: str) -> None:
    proxy.kind = kind
    with pytest.raises(wl.KubernetesError) as caught:
        connect().request("GET", "/version")
    assert "is not from a Kubernetes API: <!DOCTYPE html> <title>Log in to the network" in str(
        caught.value
    )
    assert "A proxy may answer in its place" in str(caught.value)


def test_a_check_that_gets_a_login_page_reports_it_and_stops(proxy: type[Proxy]) -> None:
    seen = examine(Home.find(), url="http://127.0.0.1:1")
    assert [(finding.check, finding.level) for finding in seen.findings] == [
        ("cluster", "ok"),
        ("reachable", "error"),
    ]
    assert "is not from a Kubernetes API" in seen.findings[-1].text


@pytest.mark.parametrize("is_let_through", [False, True])
def test_a_watch_that_gets_a_login_page_reports_a_problem(
    proxy: type[Proxy], is_let_through: bool
) -> None:
    proxy.is_let_through = is_let_through  # then the list is from the cluster, and the watch is not
    watcher = Watcher(connect(), PODS, namespace="lab")
    watcher.start()
    try:
        eventually(lambda: "is not from a Kubernetes API" in str(watcher.trouble), "it says so")
    finally:
        watcher.stop()

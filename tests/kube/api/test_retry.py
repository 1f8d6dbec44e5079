"""A busy cluster that refuses requests and names the time for a retry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import windlass as wl
from kube.http_responder import answering
from windlass.kube.api.connection import connect

STATUS = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "come back later"}


class Busy(BaseHTTPRequestHandler):
    """Refuses a number of requests, and then answers."""

    refusals = 0
    retry_after = "0"
    requests = 0

    def do_GET(self) -> None:
        busy = type(self)
        busy.requests += 1
        is_refused = busy.requests <= busy.refusals
        body = json.dumps(STATUS if is_refused else {"major": "1"}).encode()
        self.send_response(429 if is_refused else 200)
        if is_refused:
            self.send_header("Retry-After", busy.retry_after)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PATCH = do_GET


@pytest.fixture
def busy(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Busy]]:
    with answering(Busy, place, monkeypatch) as handler:
        yield handler


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_a_request_to_a_briefly_busy_cluster_is_retried(busy: type[Busy], method: str) -> None:
    busy.refusals = 3
    assert connect().request(method, "/version") == {"major": "1"}
    assert busy.requests == 4


@pytest.mark.parametrize(
    ("retry_after", "times"),
    [("0", 4), pytest.param("3", 2, marks=pytest.mark.thorough), ("600", 1)],
)
def test_a_cluster_that_stays_busy_is_not_unreachable_and_the_wait_is_short(
    busy: type[Busy], retry_after: str, times: int
) -> None:
    busy.refusals, busy.retry_after = 100, retry_after
    with pytest.raises(wl.KubernetesError, match="is too busy") as caught:
        connect().request("GET", "/version")
    assert (caught.value.status, caught.value.reason) == (429, "TooManyRequests")
    assert busy.requests == times


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH"])
def test_a_request_without_retries_fails_at_once(busy: type[Busy], method: str) -> None:
    busy.refusals = 1
    with pytest.raises(wl.KubernetesError, match="is too busy"):
        connect().request(method, "/version", once=True)
    assert connect().request(method, "/version", once=True) == {"major": "1"}
    assert busy.requests == 2

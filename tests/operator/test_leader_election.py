"""Holding and losing a lease."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness import PATIENCE
from kube.http_responder import answer_json, answering
from windlass.kube.api.connection import connect
from windlass.operator.leader_election import LeaderElection


class Leases(BaseHTTPRequestHandler):
    """Has one lease; `then` determines the responses after it was taken."""

    protocol_version = "HTTP/1.1"
    lease: dict[str, Any] = {"metadata": {"name": "x", "resourceVersion": "1"}, "spec": {}}
    then = ""

    def do_GET(self) -> None:
        kind = type(self)
        if self.then == "taken by another":
            metadata = {**kind.lease["metadata"], "resourceVersion": "9"}
            kind.lease = {"metadata": metadata, "spec": {"holderIdentity": "another"}}
        answer_json(self, 200, {} if self.then == "nonsense" else kind.lease)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = type(self)
        if self.then == "taken by another":
            answer_json(
                self, 409, {"kind": "Status", "reason": "Conflict", "message": "it changed"}
            )
        elif self.then == "nonsense":
            answer_json(self, 200, {})
        else:
            kind.lease = json.loads(body)
            version = int(kind.lease["metadata"]["resourceVersion"]) + 1
            kind.lease["metadata"]["resourceVersion"] = str(version)
            answer_json(self, 200, kind.lease)


@pytest.fixture
def leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Leases]]:
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    with answering(Leases, tmp_path, monkeypatch) as handler:
        yield handler


@pytest.mark.parametrize(
    "then", ["taken by another", pytest.param("nonsense", marks=pytest.mark.thorough)]
)
def test_an_operator_that_cannot_confirm_its_lease_stops_acting(
    leases: type[Leases], then: str
) -> None:
    gained, lost = threading.Event(), threading.Event()
    leading = LeaderElection(
        connect(), "lab", "me", name="x", on_gain=gained.set, on_loss=lost.set
    )  # fmt: skip
    leading.start()
    try:
        assert gained.wait(PATIENCE)
        leases.then = then
        assert lost.wait(PATIENCE) and not leading.is_leading.is_set()
        assert not leading.has_died
        gained.clear()
        leases.lease = {"metadata": {"name": "x", "resourceVersion": "20"}, "spec": {}}
        leases.then = ""
        assert gained.wait(PATIENCE), "it leads again once it can"
    finally:
        leading.stop()

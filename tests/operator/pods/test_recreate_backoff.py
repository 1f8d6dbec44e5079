"""The pause grows for a pod that is deleted after each creation."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from kube.http_responder import answer_json, answering
from windlass.kube.api.connection import connect
from windlass.model.status import EventKind, ReplicaId
from windlass.operator.events import EventRecorder
from windlass.operator.pods.recreate_backoff import RecreateBackoff
from windlass.runtimes.base import NotYet

JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "metadata": {"namespace": "lab", "name": "train", "uid": "job"},
}
REPLICA = ReplicaId("worker", 0, 1)


class Events(BaseHTTPRequestHandler):
    """Accepts every event."""

    protocol_version = "HTTP/1.1"
    taken: list[dict[str, Any]]

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.append(event)
        answer_json(self, 201, event)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Events]]:
    monkeypatch.setenv("WINDLASS_HOME", str(tmp_path / "home"))
    with answering(Events, tmp_path, monkeypatch) as handler:
        handler.taken = []
        yield handler


def test_the_pause_doubles_and_each_is_reported_once(events: type[Events]) -> None:
    now = 0.0
    recorder = EventRecorder(connect())
    pacing = RecreateBackoff(recorder, lambda: now)

    def may_be_made(after: float = 0.0, uid: str = "job") -> bool:
        nonlocal now
        now += after
        try:
            pacing.check(uid, REPLICA, "train-worker-0", JOB)
        except NotYet as waits:
            assert not waits.is_notified
            return False
        pacing.record(uid, REPLICA)
        return True

    assert may_be_made() and may_be_made(), "one that somebody deleted comes back at once"
    for pause in (1.0, 2.0, 4.0):
        assert not may_be_made() and not may_be_made(pause * 0.9)
        assert may_be_made(pause * 0.2)
    assert not may_be_made()
    assert may_be_made(uid="another")
    for _ in range(10):
        assert may_be_made(60.0), "no pause is longer"
    assert may_be_made(301.0) and may_be_made(), "long runs do not count"
    assert not may_be_made()
    pacing.forget("job")
    assert may_be_made()
    recorder.stop()
    messages = [event["message"] for event in events.taken]
    assert [event["reason"] for event in events.taken] == ["PodKeepsVanishing"] * 5
    assert messages[1] == (
        "the pod train-worker-0 was created 3 times and deleted each time: something in the "
        "cluster deletes it. It is created again after a pause"
    )


def test_events_of_a_job_are_logged_as_text(
    events: type[Events], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = EventRecorder(connect())
    with caplog.at_level(logging.INFO, "windlass.operator.events"):
        recorder.record(JOB, "Completed", "it is done")
        recorder.record(JOB, "ReplicaWaiting", "two\nlines \x1b[31mred", kind=EventKind.WARNING)
        recorder.stop()
    log_lines = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert log_lines == [
        ("INFO", "TFJob lab/train: Completed: it is done"),
        ("WARNING", r"TFJob lab/train: ReplicaWaiting: two lines \x1b[31mred"),
    ]

"""A pod with a full disk can still be stopped and deleted, and its results are kept."""

from __future__ import annotations

import http.server
import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from agent_processes import Agent, RemoteSite, programs

import windlass as wl
from harness import PATIENCE, eventually, stop_server
from mounts import give_back, in_own_mounts, small_disk, take_space
from windlass.runtimes import paths
from windlass.worker.agent.http_channel import Channel, NotWritten
from windlass.worker.common.atomic_files import write_json
from windlass.worker.common.nudge import send_once


@contextmanager
def pod_with_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[wl.Trial[str], Agent]]:
    """An agent with a running program and a full disk."""
    disk, home = tmp_path / "disk", tmp_path / "home"
    monkeypatch.setenv("WINDLASS_HOME", str(home))
    monkeypatch.delenv("WINDLASS_SERVER", raising=False)
    with small_disk(disk, size="32m"):
        try:
            trial = wl.run(programs.leave_a_note).submit(str(tmp_path)).wait(timeout=PATIENCE)
            (tmp_path / "pod").touch()
            elsewhere = RemoteSite(home, disk / "elsewhere", through_tunnels=False)
            agent = elsewhere.run(trial, WINDLASS_AGENT_GRACE=str(PATIENCE))
            eventually((tmp_path / "began").exists, "the program runs")
            take_space(disk)
            yield trial, agent
            eventually((tmp_path / "note").exists, "the program had time to leave")
            give_back(disk)
            agent.wait()
            elsewhere.front.close()
        finally:
            give_back(disk)
            stop_server(home)


@in_own_mounts
@pytest.mark.thorough
def test_deleting_a_pod_with_a_full_disk_gives_its_program_time_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pod_with_a_full_disk(tmp_path, monkeypatch) as (_, agent):
        agent.process.send_signal(signal.SIGTERM)
    assert agent.ending()["reason"] == "Evicted"


@in_own_mounts
@pytest.mark.thorough
def test_a_pod_with_a_full_disk_receives_a_stop_after_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pod_with_a_full_disk(tmp_path, monkeypatch) as (trial, agent):
        home = tmp_path / "home"
        write_json(str(paths.trial_dir(home, trial.id) / paths.SHOULD_STOP), {"reason": "enough"})
        _publish(home, trial)
        assert agent.process.stderr is not None
        assert "could not be executed yet" in agent.process.stderr.readline()
        write_json(str(agent.folder / paths.STOP), {"grace": PATIENCE, "reason": ""})
        _publish(home, trial)
    assert agent.ending()["reason"] == "Stopped"


@pytest.mark.thorough
def test_checkpoints_are_uploaded_and_deleted_without_local_records(
    home: Path, tmp_path: Path
) -> None:
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    trial = (
        wl.run(programs.save_without_notes).submit(str(tmp_path / "sign")).wait(timeout=PATIENCE)
    )
    (tmp_path / "sign").touch()
    agent = elsewhere.run(trial)
    assert agent.wait() == 0
    assert sorted(checkpoint.step or 0 for checkpoint in trial.refresh().list_checkpoints()) == [
        0,
        1,
        2,
    ]
    left = [path.name for path in (agent.there / "trials").rglob("checkpoints/*.json")]
    assert left == ["3.json"], "the newest, which its program may ask for"
    elsewhere.front.close()


class Answering(http.server.BaseHTTPRequestHandler):
    """Responds with some bytes, and counts the requests."""

    requested_paths: list[str]

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"bytes")

    def log_message(self, *_: object) -> None:
        pass


def test_a_file_that_cannot_be_written_is_not_downloaded_again() -> None:
    answering = type("Answering", (Answering,), {"requested_paths": []})
    with http.server.HTTPServer(("127.0.0.1", 0), answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        channel = Channel([f"http://127.0.0.1:{server.server_port}"], "any", None)
        with pytest.raises(NotWritten, match="No space left on device: '/dev/full'"):
            channel.ask("GET", "/blob", into="/dev/full")
        assert answering.requested_paths == ["/blob"]
        channel.close()
        server.shutdown()


def _publish(home: Path, trial: wl.Trial[str]) -> None:
    """Notify everyone who waits for news of a trial."""
    key = {"uid": trial.record.uid, "trial_id": trial.id, "about": "log"}
    send_once(json.dumps(key).encode(), json.loads((home / "server.json").read_text())["nudge"])

"""An agent handles invalid addresses and responses as if no server had answered."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from agent_processes import RemoteSite, programs
from http_relay import Between

import windlass as wl
from harness import PATIENCE
from windlass.runtimes.worker_zip import worker_zip
from windlass.worker.agent.http_channel import Channel, GivenUp

SENSELESS = ["http://:::8080", "http://2001:db8::7:8080", "http://[::", "lab:8080", "", "http://\0"]


def test_an_invalid_address_is_skipped(home: Path, tmp_path: Path) -> None:
    trial = wl.run(programs.greet).submit("ada").wait(timeout=PATIENCE)
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    elsewhere.ask_for(trial)
    base = f"/api/v1/agents/{trial.record.uid}/main/0/2"
    channel = Channel([*SENSELESS, elsewhere.front.url], elsewhere.token(trial.record.uid), None)
    assert channel.ask_json("GET", f"{base}/orders")["stop"] is None
    channel.close()
    elsewhere.front.close()


@pytest.mark.parametrize("url", SENSELESS)
def test_an_agent_without_another_address_waits_until_its_timeout(url: str) -> None:
    channel = Channel([url], "any", None)
    with pytest.raises(GivenUp):
        channel.ask("GET", "/", deadline=time.monotonic() + 0.1)
    channel.close()


@pytest.mark.thorough
def test_the_result_is_sent_again_until_the_server_accepts_it(home: Path, tmp_path: Path) -> None:
    trial = wl.run(programs.greet).submit("ada").wait(timeout=PATIENCE)
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    requests: list[str] = []

    def answer_with_a_page(request: str, answer: bytes) -> bytes:
        """Answer like a proxy that does not know the service yet."""
        if not request.endswith("/end"):
            return answer
        requests.append(request)
        return b"<html>please wait</html>" if len(requests) == 1 else answer

    with Between(elsewhere.url, answer_with_a_page) as between:
        elsewhere.front.close()
        elsewhere.front.url = between.url
        assert elsewhere.run(trial).wait() == 0
    assert len(requests) == 2


def test_an_agent_with_an_occupied_port_connects_to_the_known_server(
    home: Path, tmp_path: Path
) -> None:
    trial = wl.run(programs.greet).submit("ada").wait(timeout=PATIENCE)
    elsewhere = RemoteSite(home, tmp_path / "elsewhere", through_tunnels=False)
    elsewhere.ask_for(trial)
    base = f"/api/v1/agents/{trial.record.uid}/main/0/2"
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        channel = Channel([elsewhere.front.url], elsewhere.token(trial.record.uid), port)
        assert channel.ask_json("GET", f"{base}/orders")["stop"] is None
        channel.close()
    elsewhere.front.close()


def test_an_agent_with_an_occupied_port_and_no_server_explains_its_exit(
    tmp_path: Path,
) -> None:
    (tmp_path / "worker.zip").write_bytes(worker_zip())
    with socket.create_server(("127.0.0.1", 0)) as other:
        coordinates = {"uid": "0" * 32, "token": "any", "urls": [], "port": other.getsockname()[1]}
        (tmp_path / "agent.json").write_text(json.dumps(coordinates))
        done = subprocess.run(
            [sys.executable, "-I", tmp_path / "worker.zip", "agent"],
            env={
                "WINDLASS_AGENT_CONFIG": str(tmp_path / "agent.json"),
                "WINDLASS_AGENT_HOME": str(tmp_path / "home"),
                "WINDLASS_AGENT_ROLE": "main",
                "WINDLASS_AGENT_INDEX": "0",
                "WINDLASS_AGENT_ATTEMPT": "1",
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert "Two pods with hostNetwork on one machine" in done.stderr
    assert "Traceback" not in done.stderr

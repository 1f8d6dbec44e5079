"""Strangers, readers that never read, followers and submissions at once: nothing is lost."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chaos_seed import Chaos

import windlass as wl
from harness import PATIENCE
from server_requests import API, Server

MEGABYTES = 200  # the most memory of the server


@wl.run(cpus=0.1)
def write_lines(count: int, gate: str) -> None:
    for number in range(count // 2):
        print(f"line {number} of a log that many clients follow")
    while not Path(gate).exists():
        time.sleep(0.01)
    for number in range(count // 2, count):
        print(f"line {number} of a log that many clients follow")


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    """This process holds the other ends of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Clients:
    """Connections to a server, without Windlass's own client."""

    def __init__(self, home: Path, stack: contextlib.ExitStack) -> None:
        self._server = Server(home)
        self._stack = stack

    def connect(self) -> socket.socket:
        address = urlsplit(self._server.url)
        where = (str(address.hostname), address.port or 0)
        return self._stack.enter_context(socket.create_connection(where, timeout=PATIENCE))

    def request_stream(self, trial_id: int) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self.connect()
        headers = {"Authorization": f"Bearer {self._server.token}"}
        connection.request("GET", f"{API}/trials/{trial_id}/stream", headers=headers)
        return connection


def followed_text(connection: http.client.HTTPConnection) -> str:
    """Read the output of a trial from its stream, to the end."""
    pieces: list[str] = []
    for line in connection.getresponse():
        if line.startswith(b'data: {"items":'):
            for part in json.loads(line[6:])["items"]:
                pieces += [part["text"], "\n" if part.get("end", True) else ""]
    return "".join(pieces)


def peak_memory(pid: int) -> float:
    """Return the peak memory of a process in megabytes."""
    match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


@pytest.mark.finding("A2")
@pytest.mark.finding("A9")
def test_with_strangers_idle_readers_followers_and_submissions_nothing_is_lost(
    fresh_home: Path, tmp_path: Path, chaos: Chaos
) -> None:
    count, gate = chaos.pick(20_000, 100_000), tmp_path / "gate"
    followers = chaos.pick(15, 50)
    written = write_lines.submit(count, str(gate))
    job = wl.Job(wl.Command(["true"]), executor=wl.Local(cpus=0.05), name="small")
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(followers + 3) as threads:
        clients = Clients(fresh_home, stack)
        for _ in range(chaos.pick(300, 500)):
            clients.connect()
        for _ in range(chaos.pick(200, 400)):
            clients.request_stream(written.id)  # and nobody reads the answer
        connections = [clients.request_stream(written.id) for _ in range(followers)]
        following = [threads.submit(followed_text, connection) for connection in connections]
        storm = [threads.submit(lambda: job.submit().id) for _ in range(chaos.pick(60, 300))]
        submitted = [trial.result(PATIENCE) for trial in storm]
        gate.touch()
        lines = (f"line {number} of a log that many clients follow\n" for number in range(count))
        expected = "".join(lines)
        for text in following:
            assert text.result(PATIENCE) == expected
        assert peak_memory(wl.Client().server_info().pid) < MEGABYTES
    assert written.wait(timeout=PATIENCE).state == "SUCCEEDED"
    assert len(set(submitted)) == len(submitted)
    for trial in wl.list_trials(name="small"):
        assert trial.wait(timeout=PATIENCE).state == "SUCCEEDED"
    assert sorted(trial.id for trial in wl.list_trials(name="small")) == sorted(submitted)

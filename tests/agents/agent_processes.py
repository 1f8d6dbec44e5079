"""Agents as processes of this machine: everything except their cluster.

A finished trial gets another attempt, which only its agent looks after.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import windlass as wl
from harness import PATIENCE, eventually
from small_projects import import_copy
from tcp_relay import Way, end, pipe_both
from windlass.model.job import Assignment, Job
from windlass.model.status import ReplicaId
from windlass.runtimes import paths, remote_attempt
from windlass.runtimes.worker_zip import worker_zip
from windlass.server.web.agent_token import agent_token
from windlass.worker.agent.http_channel import GREETING
from windlass.worker.common.file_reads import read_json
from windlass.worker.logs.segment import read_parts
from windlass.worker.logs.segment_reader import join_lines

programs = import_copy(Path(__file__).with_name("agent_functions.py"))


class RemoteSite:
    """A remote location: it has agents, and a way between them and the server."""

    def __init__(self, home: Path, place: Path, *, through_tunnels: bool) -> None:
        self.home = home
        self.place = place
        self.through_tunnels = through_tunnels
        self.front = FixedAddress(self.url)
        place.mkdir()
        (place / "worker.zip").write_bytes(worker_zip())

    def run(
        self,
        trial: wl.Trial[Any],
        attempt: int = 2,
        *,
        index: int = 0,
        python: str = sys.executable,
        **environ: str,
    ) -> Agent:
        """Run the function of a trial once more, in an agent."""
        job, replica, folder = self.ask_for(trial, attempt, index=index)
        self._move(folder / paths.LAUNCH, f"{self.place}/home-{index}-{attempt}")
        return Agent(self, job, replica, folder, python, environ)

    def ask_for(
        self, trial: wl.Trial[Any], attempt: int = 2, *, index: int = 0
    ) -> tuple[Job, ReplicaId, Path]:
        """Request another attempt of a trial, and return its folder. No agent runs it yet."""
        record = trial.record
        job = Job(uid=record.uid, trial_id=record.id, spec=record.spec, name=record.name)
        replica = ReplicaId("main", index, attempt)
        return job, replica, remote_attempt.ask_for(self.home, job, replica, Assignment())

    def _move(self, launch: Path, there: str) -> None:
        """Give each agent its own home, because several pods share this machine."""
        launch.write_text(launch.read_text().replace(remote_attempt.THERE, there))

    def url(self) -> str:
        return str(json.loads((self.home / "server.json").read_text())["url"])

    def token(self, uid: str) -> str:
        return agent_token((self.home / "token").read_text().strip(), uid)


class FixedAddress(Way):
    """A fixed address in front of any server, like a service of a cluster."""

    def __init__(self, url: Callable[[], str]) -> None:
        super().__init__(lambda: _connect(url()))
        self.url = f"http://127.0.0.1:{self.port}"


class Agent:
    """A started agent, and the server's files of its attempt."""

    def __init__(
        self,
        elsewhere: RemoteSite,
        job: Job,
        replica: ReplicaId,
        folder: Path,
        python: str,
        environ: dict[str, str],
    ) -> None:
        self.folder = folder
        self.there = elsewhere.place / f"home-{replica.index}-{replica.attempt}"
        self.there.mkdir()
        self._port = _free_port() if elsewhere.through_tunnels else None
        token = elsewhere.token(job.uid)
        config = elsewhere.place / f"agent-{replica.index}-{replica.attempt}.json"
        urls = [] if self._port else [elsewhere.front.url]
        settings = {"uid": job.uid, "token": token, "urls": urls, "port": self._port}
        config.write_text(json.dumps(settings))
        self.process = subprocess.Popen(
            [python, "-I", elsewhere.place / "worker.zip", "agent"],
            env={
                "PATH": os.environ["PATH"],
                "WINDLASS_SYSTEM_METRICS": "0",
                "WINDLASS_AGENT_CONFIG": str(config),
                "WINDLASS_AGENT_HOME": str(self.there),
                "WINDLASS_AGENT_ROLE": replica.role,
                "WINDLASS_AGENT_INDEX": str(replica.index),
                "WINDLASS_AGENT_ATTEMPT": str(replica.attempt),
                **environ,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        self.tunnels = Tunnels(elsewhere.url, self._port, token) if self._port else None

    def wait(self) -> int:
        """Return the exit code of the agent."""
        try:
            _, complaints = self.process.communicate(timeout=PATIENCE)
            print(complaints)  # shown when a test fails
            return self.process.returncode
        finally:
            if self.tunnels:
                self.tunnels.close()

    def log(self) -> str:
        """The server's log of the attempt, without times."""
        try:
            parts = read_parts((self.folder / paths.LOG).read_bytes())
        except FileNotFoundError:
            return ""
        return "\n".join(line.text.decode() for line in join_lines(parts))

    def ending(self) -> dict[str, Any]:
        return read_json(str(self.folder / paths.EXIT)) or {}

    def wait_for_text(self, text: str) -> None:
        """Wait until the server has received a text."""
        eventually(lambda: text in self.log() or self.process.poll() is not None, f"{text} arrives")
        assert text in self.log()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


class Tunnels:
    """Connections that a server opens to an agent which cannot reach the server."""

    def __init__(self, url: Callable[[], str], port: int, token: str, count: int = 3) -> None:
        self._url = url
        self._port = port
        self._token = token
        self._is_closed = threading.Event()
        self._open: set[socket.socket] = set()
        for _ in range(count):
            threading.Thread(target=self._keep_open, daemon=True).start()

    def close(self) -> None:
        self._is_closed.set()
        self.cut()

    def cut(self) -> None:
        """Break open connections. New ones are opened at once."""
        for connection in list(self._open):
            end(connection)

    def knock(self, greeting: bytes) -> socket.socket:
        """Open a connection to the agent with this greeting."""
        eventually(self._is_there, "the agent listens")
        knocking = socket.create_connection(("127.0.0.1", self._port), PATIENCE)
        knocking.sendall(greeting)
        return knocking

    def _is_there(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def _keep_open(self) -> None:
        while not self._is_closed.wait(0.02):
            try:
                self._open_one()
            except (OSError, ValueError):  # no agent yet, or no server
                continue

    def _open_one(self) -> None:
        with socket.create_connection(("127.0.0.1", self._port), 5) as inner:
            inner.sendall(GREETING + self._token.encode() + b"\n")
            inner.settimeout(None)
            first = inner.recv(65536)  # the connection is in use: only now connect to the server
            if not first:
                return
            with _connect(self._url()) as outer:
                self._open |= {inner, outer}
                outer.sendall(first)
                pipe_both(inner, outer)
                self._open -= {inner, outer}


def _connect(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    connected = socket.create_connection((host, int(port)), 5)
    connected.settimeout(None)
    return connected


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def request(url: str, token: str, method: str = "GET", body: bytes | None = None) -> int:
    """Return the status of a response."""
    http_request = urllib.request.Request(
        url, data=body, method=method, headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(http_request, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

"""Agents as processes of this machine: everything but the cluster that they are made for.

A trial that is over is given another attempt, which nobody but its agent looks after.
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


class Elsewhere:
    """A place away from the home of a server: where agents are, and how they get to it."""

    def __init__(self, home: Path, place: Path, *, through_tunnels: bool) -> None:
        self.home = home
        self.place = place
        self.through_tunnels = through_tunnels
        self.front = Front(self.url)
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
        """Have the function of a trial run once more, here."""
        job, replica, folder = self.ask_for(trial, attempt, index=index)
        self._move(folder / paths.LAUNCH, f"{self.place}/home-{index}-{attempt}")
        return Agent(self, job, replica, folder, python, environ)

    def ask_for(
        self, trial: wl.Trial[Any], attempt: int = 2, *, index: int = 0
    ) -> tuple[Job, ReplicaId, Path]:
        """Ask for another attempt of a trial, and return its folder. No agent runs it yet."""
        record = trial.record
        job = Job(uid=record.uid, trial_id=record.id, spec=record.spec, name=record.name)
        replica = ReplicaId("main", index, attempt)
        return job, replica, remote_attempt.ask_for(self.home, job, replica, Assignment())

    def _move(self, launch: Path, there: str) -> None:
        """A pod has its home at one place; of several on one machine each has its own."""
        launch.write_text(launch.read_text().replace(remote_attempt.THERE, there))

    def url(self) -> str:
        return str(json.loads((self.home / "server.json").read_text())["url"])

    def token(self, uid: str) -> str:
        return agent_token((self.home / "token").read_text().strip(), uid)


class Front(Way):
    """An address that stays, as a service of a cluster has one, whatever server there is."""

    def __init__(self, url: Callable[[], str]) -> None:
        super().__init__(lambda: _connect(url()))
        self.url = f"http://127.0.0.1:{self.port}"


class Agent:
    """One agent that was started, and the files that its server has of the attempt."""

    def __init__(
        self,
        elsewhere: Elsewhere,
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
        told = {"uid": job.uid, "token": token, "urls": urls, "port": self._port}
        config.write_text(json.dumps(told))
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
        """Its exit code."""
        try:
            _, complaints = self.process.communicate(timeout=PATIENCE)
            print(complaints)  # shown where something fails
            return self.process.returncode
        finally:
            if self.tunnels:
                self.tunnels.close()

    def log(self) -> str:
        """What the server has of its log, without the times."""
        try:
            parts = read_parts((self.folder / paths.LOG).read_bytes())
        except FileNotFoundError:
            return ""
        return "\n".join(line.text.decode() for line in join_lines(parts))

    def ending(self) -> dict[str, Any]:
        return read_json(str(self.folder / paths.EXIT)) or {}

    def says(self, text: str) -> None:
        """Wait until the server has heard something."""
        eventually(lambda: text in self.log() or self.process.poll() is not None, f"{text} is said")
        assert text in self.log()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


class Tunnels:
    """What leads from a server to an agent that cannot reach it: connections made to the agent."""

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
        """Break what is open; others are opened at once."""
        for each in list(self._open):
            end(each)

    def knock(self, greeting: bytes) -> socket.socket:
        """A connection to the agent, with that for a greeting."""
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
            first = inner.recv(65536)  # it is used: only then the server is asked for
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
    """The status of an answer."""
    asked = urllib.request.Request(
        url, data=body, method=method, headers={"Authorization": f"Bearer {token}"}
    )
    try:
        with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code

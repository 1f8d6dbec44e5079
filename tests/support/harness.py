"""Tools of the tests: a user's project, the server of a home, and waiting for a condition."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import warm_interpreter

BIN = Path(sys.executable).parent
PATIENCE = 120.0  # an upper limit that only a failure reaches


def stop_server(home: Path) -> None:
    """Stop the server of a home, if there is one, and everything that still runs in the home."""
    from windlass.home import Home

    stop_trials(home)
    warm_interpreter.run(
        [warm_interpreter.WINDLASS, "server", "stop"],
        cwd=Path("/"),
        env={**os.environ, "WINDLASS_HOME": str(Home(home).path)},
        timeout=PATIENCE,
    )


def kill_server(home: Path) -> None:
    """Kill the server of a home, and wait until its process is gone."""
    from windlass.worker.common.atomic_files import is_locked

    os.kill(json.loads((home / "server.json").read_text())["pid"], signal.SIGKILL)
    eventually(lambda: not is_locked(str(home / "server.lock")), "all of the server is gone")


def stop_trials(home: Path) -> None:
    """Stop every running trial of a home."""
    from windlass.client.client import Client
    from windlass.client.connection.discovery import describe_server
    from windlass.home import Home

    if describe_server(Home(home)) is None:
        return
    before = os.environ.get("WINDLASS_HOME")
    os.environ["WINDLASS_HOME"] = str(home)
    try:
        client = Client()
        going = ["QUEUED", "STARTING", "RUNNING", "RESTARTING", "SUSPENDED"]
        live = [
            *client.list_trials(state=going),
            *client.list_commands(state=going),
            *client.list_shells(state=going),
        ]
        for trial in live:
            trial.stop(grace=0)
        for trial in live:
            trial.wait(timeout=PATIENCE)
    finally:
        if before is None:
            del os.environ["WINDLASS_HOME"]
        else:
            os.environ["WINDLASS_HOME"] = before


def windlass(
    *words: str | Path | int, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command of Windlass to its end and capture its output as text."""
    return warm_interpreter.run(
        [warm_interpreter.WINDLASS, *map(str, words)],
        cwd=cwd or Path.cwd(),
        env={**os.environ, **(env or {})},
        timeout=PATIENCE,
    )


class Project:
    """A user's folder. Tests write files into it and run them as a user does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()

    def write(self, name: str, text: str) -> Path:
        """Write a file and remove the common indentation of its text."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def python(
        self, *args: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Python with these arguments in the folder."""
        return self.run(sys.executable, *args, env=env, cwd=cwd)

    def run(
        self, *argv: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder and capture its output as text."""
        return warm_interpreter.run(
            [str(part) for part in argv],
            cwd=cwd or self.path,
            env={**os.environ, **(env or {})},
            timeout=PATIENCE,
        )

    def start(self, *args: str | Path) -> subprocess.Popen[str]:
        """Start Python with these arguments in the folder without waiting for its exit."""
        return subprocess.Popen(
            [sys.executable, *[str(part) for part in args]],
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def traces(home: Path, *values: str) -> list[str]:
    """Return the files of a home that contain one of the values."""
    processes = []
    for folder, _, names in os.walk(home):
        for name in names:
            path = Path(folder, name)
            with contextlib.suppress(FileNotFoundError):  # code is removed when trials end
                if path.is_file() and any(value.encode() in path.read_bytes() for value in values):
                    processes.append(str(path.relative_to(home)))
    return sorted(processes)


def eventually(holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Poll until a condition holds, where no notification exists.

    The interval grows with time, because requests to a cluster have a cost.
    """
    import time

    began = time.monotonic()
    while not holds():
        waited = time.monotonic() - began
        assert waited < patience, f"never happened: {what}"
        time.sleep(min(max(waited / 10, 0.02), 0.5))

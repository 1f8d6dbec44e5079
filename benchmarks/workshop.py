"""A temporary home and project for measurements."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from benchmarks.yardstick import BIN, PATIENCE, clean_environment, time_command
from windlass.worker.common.atomic_files import is_locked

_LEAVING = 10.0
_SCRIPTS = Path(__file__).parent / "scripts"
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@localhost")


class Workshop:
    """A temporary home, and a project that is a small git repository with the scripts in it.

    At the end the server is stopped and everything removed.
    """

    def __init__(self, folder: Path | None = None) -> None:
        """Create it in a folder, or in that of temporary files."""
        # Sockets are made below it, and their paths may be no longer than some 100 characters.
        self.root = Path(tempfile.mkdtemp(prefix="wlb-", dir=folder)).resolve()
        self.home = self.root / "home"
        self.project = self.root / "project"
        self.environment = {
            **clean_environment(self.root),
            "WINDLASS_HOME": str(self.home),
            "RAY_TMPDIR": str(self.root),
            "RAY_USAGE_STATS_ENABLED": "0",
        }

    def __enter__(self) -> Workshop:
        self.project.mkdir()
        for script in _SCRIPTS.glob("*.py"):
            shutil.copy(script, self.project)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "First")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if (self.home / "server.json").exists():
                self.windlass("server", "stop")
            self.settle()
        finally:
            self._end_rest()
            shutil.rmtree(self.root, ignore_errors=True)

    def git(self, *arguments: str) -> None:
        """Run git in the project."""
        time_command([*_GIT, *arguments], self.environment, self.project)

    def windlass(self, *arguments: str) -> float:
        """The seconds a `windlass` command takes."""
        return time_command([BIN / "windlass", *arguments], self.environment, self.project)

    def run(self, script: str, *arguments: str | Path) -> float:
        """The seconds a script of the project takes, as a whole."""
        return time_command([sys.executable, script, *arguments], self.environment, self.project)

    def script(
        self, name: str, *arguments: str | Path, python: str | Path = sys.executable
    ) -> Script:
        """A script of the project, started."""
        return Script(
            [python, name, *arguments], self.project, self.environment, self.root / f"{name}.err"
        )

    def time_first_line(self, name: str, python: str | Path = sys.executable) -> float:
        """The seconds from starting a script to the first line it prints."""
        start = time.perf_counter()
        with self.script(name, python=python) as script:
            script.answer()
            return time.perf_counter() - start

    def server_pid(self) -> int:
        """The process that serves the home."""
        described = json.loads((self.home / "server.json").read_bytes())
        return int(described["pid"])

    def kill_server(self) -> None:
        """Kill the server, as a power cut would."""
        os.kill(self.server_pid(), signal.SIGKILL)
        _await(lambda: not is_locked(str(self.home / "server.lock")), "the server's end")
        (self.home / "server.json").unlink()

    def settle(self) -> None:
        """Wait until no attempt is alive any more: then nothing writes into the home."""
        locks = [str(lock) for lock in (self.home / "trials").glob("*/*/*/lock")]
        _await(lambda: not any(map(is_locked, locks)), "the end of the trials")

    def _end_rest(self) -> None:
        """Kill remaining processes, known by their `HOME`: a peer may leave some behind."""
        left = self._processes()
        _, staying = psutil.wait_procs(left, timeout=_LEAVING)
        for process in staying:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=PATIENCE)

    def _processes(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HOME") == str(self.root):
                    found.append(process)
        return found


class Script:
    """A running script that measures when it is asked to.

    It gets a line and answers with one that begins with `=`, then JSON.
    """

    def __init__(
        self, argv: list[str | Path], folder: Path, environment: dict[str, str], errors: Path
    ) -> None:
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                [str(part) for part in argv],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                bufsize=0,  # select would not see buffered data
                start_new_session=True,
            )

    def ask(self, what: str = "") -> Any:
        """Measure once and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what}\n".encode())
        return self.answer()

    def answer(self) -> Any:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise RuntimeError(f"no answer for {PATIENCE:g} seconds: {self._complaint()}")
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError(f"the script ended: {self._complaint()}")
            if line.startswith(b"="):
                return json.loads(line[1:])

    def __enter__(self) -> Script:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: object, __: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=1 if kind else PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()

    def _complaint(self) -> str:
        return self._errors.read_text("utf-8", "replace").strip()[-2000:]


def _await(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"never came: {what}")
        time.sleep(0.01)  # there is no notification for this

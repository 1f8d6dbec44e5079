"""A home and all its processes: servers, launchers, supervisors, and children of trials."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil

from harness import eventually, stop_server
from windlass.worker.common.atomic_files import is_locked
from windlass.worker.common.process_identity import is_alive

# A variable in the environment of all processes of a test. Its name does not start with WINDLASS_,
# because those variables are not passed on.
TAG = "CHAOS_HOME"


class HomeWorld:
    """Observes a home from outside, and kills its processes."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def processes(self) -> list[psutil.Process]:
        """Return all live processes that descend from this home, with any current parent."""
        psutil.process_iter.cache_clear()  # it caches processes by pid
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def server(self) -> psutil.Process | None:
        """Return the server, or None. Another process with its pid does not count."""
        try:
            record = json.loads((self.home / "server.json").read_text())
            process = psutil.Process(record["pid"])
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None
        return process if is_alive(record["pid"], record["identity"]) else None

    def servers(self) -> list[psutil.Process]:
        """Return the server and any process that is about to become the server."""
        return [process for process in self.processes() if _runs(process, "server/__main__.py")]

    def launchers(self) -> list[psutil.Process]:
        """Return the warm interpreters of the current server."""
        server = self.server()
        return (
            [child for child in _children(server) if _runs(child, "launcher.py")] if server else []
        )

    def spares(self) -> list[psutil.Process]:
        """Return spare supervisors, which run no attempt, and their processes."""
        processes = []
        for launcher in self.launchers():
            for forked in _children(launcher):
                try:
                    held = [file.path for file in forked.open_files()]
                except psutil.NoSuchProcess:
                    continue
                if not any(path.startswith(str(self.home)) for path in held):
                    processes += [forked, *_children(forked)]
        return processes

    def kill_server(self) -> bool:
        """Kill the server, wait for its end, and return whether there was a server."""
        server = self.server()
        if server is None:
            return False
        kill(server)
        eventually(lambda: self.server() != server, "the kernel has buried it")
        return True

    def state(self, trial_id: int, attempt: int = 1) -> dict[str, Any]:
        """Return the state file of a supervisor, or an empty dict if there is none."""
        try:
            path = self.attempt(trial_id, attempt) / "state.json"
            record: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        return record

    def attempt(self, trial_id: int, attempt: int = 1) -> Path:
        return self.home / "trials" / str(trial_id) / "main-0" / str(attempt)

    def supervisor(self, trial_id: int) -> psutil.Process:
        return psutil.Process(self.state(trial_id)["supervisor"]["pid"])

    def process(self, trial_id: int) -> psutil.Process:
        return psutil.Process(self.state(trial_id)["process"]["pid"])

    def kill_all(self) -> None:
        """Kill everything at once, as a power failure does, so that no process sees another die."""
        ours = self.processes()
        for process in ours:
            process.suspend()
        # Their children from the meantime.
        for target in {*ours, *self.processes()}:
            kill(target)
        eventually(lambda: not self.processes(), "all of it is gone")

    def check_idle(self) -> None:
        """Check that only the server and its launchers run."""

        def others() -> list[psutil.Process]:
            server = self.server()
            own = {server, *self.launchers(), *self.spares()} if server else set()
            return [process for process in self.processes() if process not in own]

        eventually(lambda: not others(), f"only the server is left, not {others()}")

    def close(self) -> None:
        """Stop the server. No process may be left, and the home must not be locked."""
        stop_server(self.home)
        try:
            eventually(lambda: not self.processes(), f"nothing is left, not {self.processes()}")
            assert not is_locked(str(self.home / "server.lock"))
        finally:
            for process in self.processes():
                kill(process)

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get(TAG) == str(self.home)
        except psutil.Error:
            return False


def _runs(process: psutil.Process, script: str) -> bool:
    try:
        return any(word.endswith(script) for word in process.cmdline())
    except psutil.Error:
        return False


def kill(process: psutil.Process) -> None:
    """Send SIGKILL to exactly this process, if it still exists."""
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        pass


def kill_all(processes: list[psutil.Process]) -> int:
    """Kill the processes one after the other without a pause, and return their number."""
    for process in processes:
        kill(process)
    return len(processes)


def is_running(pid: int) -> bool:
    """Return whether such a process exists. A zombie does not count."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []

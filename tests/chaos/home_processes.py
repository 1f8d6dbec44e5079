"""A home and every process of it: servers, launchers, supervisors, what trials started."""

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

# In the environment of all that comes of a test. Not WINDLASS_...: those are not passed on.
TAG = "CHAOS_HOME"


class HomeWorld:
    """Looks at a home from outside, and kills what lives in it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def processes(self) -> list[psutil.Process]:
        """Return all live processes that descend from this home, with any current parent."""
        psutil.process_iter.cache_clear()  # it keeps those that had a number before
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def server(self) -> psutil.Process | None:
        """The server, if there is one; never one that merely has its pid."""
        try:
            told = json.loads((self.home / "server.json").read_text())
            found = psutil.Process(told["pid"])
        except (OSError, ValueError, psutil.NoSuchProcess):
            return None
        return found if is_alive(told["pid"], told["identity"]) else None

    def servers(self) -> list[psutil.Process]:
        """The server, and any that is about to be it."""
        return [each for each in self.processes() if _runs(each, "server/__main__.py")]

    def launchers(self) -> list[psutil.Process]:
        """The warm interpreters of the server that is there."""
        server = self.server()
        return [each for each in _children(server) if _runs(each, "launcher.py")] if server else []

    def spares(self) -> list[psutil.Process]:
        """The supervisors that launchers made ahead, which hold no attempt, and their processes."""
        found = []
        for launcher in self.launchers():
            for forked in _children(launcher):
                try:
                    held = [file.path for file in forked.open_files()]
                except psutil.NoSuchProcess:
                    continue
                if not any(path.startswith(str(self.home)) for path in held):
                    found += [forked, *_children(forked)]
        return found

    def kill_server(self) -> bool:
        """Kill the server and see it gone; whether there was one."""
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
            told: dict[str, Any] = json.loads(path.read_text())
        except FileNotFoundError:
            return {}
        return told

    def attempt(self, trial_id: int, attempt: int = 1) -> Path:
        return self.home / "trials" / str(trial_id) / "main-0" / str(attempt)

    def supervisor(self, trial_id: int) -> psutil.Process:
        return psutil.Process(self.state(trial_id)["supervisor"]["pid"])

    def process(self, trial_id: int) -> psutil.Process:
        return psutil.Process(self.state(trial_id)["process"]["pid"])

    def kill_all(self) -> None:
        """Kill everything at once, as the end of power does: nobody sees another die."""
        ours = self.processes()
        for each in ours:
            each.suspend()
        # What they had started in the meantime.
        for each in {*ours, *self.processes()}:
            kill(each)
        eventually(lambda: not self.processes(), "all of it is gone")

    def check_idle(self) -> None:
        """Nothing runs but the server and its launchers."""

        def others() -> list[psutil.Process]:
            server = self.server()
            own = {server, *self.launchers(), *self.spares()} if server else set()
            return [each for each in self.processes() if each not in own]

        eventually(lambda: not others(), f"only the server is left, not {others()}")

    def close(self) -> None:
        """Stop the server; nothing at all may be left, nor the home held."""
        stop_server(self.home)
        try:
            eventually(lambda: not self.processes(), f"nothing is left, not {self.processes()}")
            assert not is_locked(str(self.home / "server.lock"))
        finally:
            for each in self.processes():
                kill(each)

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
    """SIGKILL to that very process, if it is still there."""
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        pass


def kill_all(processes: list[psutil.Process]) -> int:
    """Kill one after the other, at once; how many."""
    for process in processes:
        kill(process)
    return len(processes)


def is_running(pid: int) -> bool:
    """Whether there is such a process; a dead one that nobody has buried is none."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []

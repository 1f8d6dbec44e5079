"""The `windlass` command as a user types it, with its own folder and home."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import warm_interpreter
from cli.terminals import PATIENCE, Terminal
from job_requests import request as roles_request
from warm_interpreter import WINDLASS
from windlass.client.client import Client
from windlass.client.resources.trial.trial import Trial
from windlass.model.job import Role
from windlass.model.records import TrialRecord


class Shell:
    """A user's shell: a folder, a home, and the commands typed there."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        folder.mkdir(parents=True, exist_ok=True)
        ours = ("WINDLASS_", "NO_COLOR", "COLUMNS", "LINES")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        # More CPUs than the machine has, so that trials which only wait never wait for each other.
        self.env |= {
            "WINDLASS_HOME": str(home),
            "WINDLASS_CPUS": "16",
            "WINDLASS_MEMORY": "64GB",
            "WINDLASS_DEVICES": "a100,a100",
            "WINDLASS_REPORT_WAITS": "never",
        }

    def write(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def __call__(
        self, *args: str, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `windlass` with these arguments and capture its output."""
        return self.start(WINDLASS, *args, cwd=cwd, **env)

    def start(
        self, *command: str, cwd: Path | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run any command."""
        return warm_interpreter.run(
            command, cwd=cwd or self.folder, env={**self.env, **env}, timeout=PATIENCE
        )

    def good(self, *args: str, cwd: Path | None = None, **env: str) -> str:
        """Return the output of a command that must succeed."""
        done = self(*args, cwd=cwd, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def json(self, *args: str, **env: str) -> Any:
        """Return the JSON that a command prints without other output."""
        done = self(*args, "--json", cwd=None, **env)
        assert done.stderr == "", done.stderr
        return json.loads(done.stdout)

    def complete(self, words: str) -> list[str]:
        """Return bash's completions of the last of these words."""
        position = str(words.count(" "))
        done = self(_WINDLASS_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=position)
        assert done.returncode == 0, done.stderr
        return [line.partition(",")[2] for line in done.stdout.splitlines() if line]

    def submit(self, *args: str) -> int:
        """Start a trial with `windlass run --detach` and return its id."""
        return int(json.loads(self.good("run", "--detach", "--json", *args))["id"])

    def submit_roles(self, *roles: Role, name: str = "mnist", **spec: Any) -> Trial[Any]:
        """Submit a job of several replicas in the format of the API."""
        if not (self.home / "server.json").exists():
            self.good("server", "start")
        job_request = roles_request(*roles, name=name, **spec)
        record = self.client.transport.ask("POST", "/trials", TrialRecord, body=job_request)
        return self.client.get_trial(record.id)

    @property
    def client(self) -> Client:
        """A client of this home's server, to check the effect of a command."""
        described = json.loads((self.home / "server.json").read_text())
        return Client(described["url"], (self.home / "token").read_text().strip())

    def trial(self, trial_id: int | str) -> TrialRecord:
        """The record of a trial."""
        return self.client.get_trial(int(trial_id)).record

    def newest(self) -> TrialRecord:
        """The record of the newest trial."""
        return next(self.client.list_trials(sort_by="-id", limit=1)).record

    def terminal(self, *args: str, columns: int = 80, **env: str) -> Terminal:
        """Run `windlass` with these arguments in a terminal."""
        return Terminal(
            [WINDLASS, *args], env={**self.env, **env}, cwd=self.folder, columns=columns
        )


def stop_everything(shell: Shell) -> None:
    """Stop the running trials, then the server."""
    if not shell.home.is_dir():
        return
    if (shell.home / "trials").exists():
        shell("server", "start")
        client = shell.client
        everything = (*client.list_trials(), *client.list_commands(), *client.list_shells())
        live = [trial for trial in everything if not trial.is_finished]
        for trial in live:
            trial.stop(grace=0)
        for trial in live:
            trial.wait(timeout=PATIENCE)
    shell("server", "stop")
